//! Which file a type belongs to: the one whose prefix is the longest that its name begins with.

/// The files and the beginnings of the names in them. What upstream calls anew goes to `other` until it is sorted here.
const AREAS: [(&str, &[&str]); 15] = [
    (
        "account",
        &[
            "Account",
            "Auth",
            "Bedrock",
            "Chatgpt",
            "Consume",
            "Credits",
            "GetAccount",
            "Gateway",
            "GetWorkspace",
            "Login",
            "Logout",
            "Nullable",
            "PlanType",
            "Rate",
            "SendAddCredits",
            "Spend",
            "UserVerification",
            "Workspace",
        ],
    ),
    ("apps", &["App", "Browser", "Computer", "Connector", "Skill", "Tool"]),
    (
        "command",
        &[
            "AdditionalF",
            "AdditionalN",
            "AdditionalP",
            "ApplyPatch",
            "Command",
            "Exec",
            "FileChange",
            "FileSystem",
            "Granted",
            "Network",
            "ParsedCommand",
            "Patch",
            "Permission",
            "Process",
            "RequestPermission",
            "Review",
            "Sandbox",
        ],
    ),
    (
        "config",
        &[
            "Analytics",
            "Approval",
            "Ask",
            "Config",
            "Experimental",
            "Hook",
            "ManagedHooks",
            "Merge",
            "Otel",
            "Overridden",
            "Residency",
            "Web",
            "Write",
        ],
    ),
    ("external", &["External", "Migration", "Project", "Marketplace"]),
    ("files", &["Fs", "Fuzzy", "Environment", "Git"]),
    (
        "item",
        &[
            "Agent",
            "Collab",
            "Dynamic",
            "Function",
            "Guardian",
            "Image",
            "Item",
            "Local",
            "Reasoning",
            "Response",
            "SubAgent",
            "Terminal",
            "Text",
        ],
    ),
    ("mcp", &["Mcp", "Resource"]),
    ("model", &["Model"]),
    ("plugin", &["Plugin"]),
    ("remote", &["Remote", "Server", "Windows"]),
    ("thread", &["Thread"]),
    ("thread_item", &["ThreadItem"]),
    ("thread_realtime", &["ThreadRealtime", "Realtime"]),
    ("turn", &["Turn"]),
];

const OTHER: &str = "other";

/// The files, in order.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    AREAS.iter().map(|(area, _)| *area).chain([OTHER])
}

pub(super) fn of(type_name: &str) -> &'static str {
    let fits = AREAS.iter().flat_map(|(area, beginnings)| beginnings.iter().map(move |beginning| (*area, *beginning)));
    let best =
        fits.filter(|(_, beginning)| type_name.starts_with(beginning)).max_by_key(|(_, beginning)| beginning.len());
    best.map_or(OTHER, |(area, _)| area)
}

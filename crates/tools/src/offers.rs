//! The union of what all tool servers offer, as callers see it, and the way back from a name to its server. Pure; made anew
//! whenever a server's lists change.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};

use crate::catalog::{Catalog, OwnTool};
use crate::changes::Change;
use crate::names::Names;
use crate::settings::Server;

/// All that is offered.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    pub(crate) tools: Vec<Tool>,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<ResourceTemplate>,
    tool_ways: HashMap<String, Way<OwnTool>>,
    prompt_ways: HashMap<String, Way<()>>,
    resource_ways: HashMap<String, Arc<str>>,
    /// The letters of a template before its first variable, and whose it is.
    template_ways: Vec<(String, Arc<str>)>,
    /// The servers that have resources at all.
    resource_servers: Vec<Arc<str>>,
    /// By which change each of the lists became what it is.
    pub(crate) tools_changed: Change,
    pub(crate) resources_changed: Change,
    pub(crate) prompts_changed: Change,
}

/// Where a name leads.
#[derive(Clone, Debug)]
pub(crate) struct Way<T> {
    pub(crate) server: Arc<str>,
    /// What the server calls it.
    pub(crate) own: String,
    pub(crate) what: T,
}

impl Offers {
    /// The union, in the order of the servers.
    pub(crate) fn of(servers: &[(Arc<Server>, Arc<Catalog>)]) -> Self {
        let mut offers = Self::default();
        offers.take_tools(servers);
        offers.take_prompts(servers);
        for (server, catalog) in servers {
            let name: Arc<str> = (&*server.name).into();
            if !catalog.resources.is_empty() || !catalog.templates.is_empty() {
                offers.resource_servers.push(Arc::clone(&name));
            }
            for resource in &catalog.resources {
                // Two servers may have the same address; the first one answers for it.
                offers.resource_ways.entry(resource.uri.clone()).or_insert_with(|| {
                    offers.resources.push(resource.clone());
                    Arc::clone(&name)
                });
            }
            for template in &catalog.templates {
                let letters = template.uri_template.split('{').next().unwrap_or_default();
                offers.template_ways.push((letters.to_owned(), Arc::clone(&name)));
                offers.templates.push(template.clone());
            }
        }
        offers
    }

    /// Notes which lists became other ones by this change; says whether any did.
    pub(crate) fn note_changes(&mut self, before: &Self, change: Change) -> bool {
        let changed = |is_same: bool, before: Change| if is_same { before } else { change };
        self.tools_changed = changed(self.tools == before.tools, before.tools_changed);
        let are_resources_same = self.resources == before.resources && self.templates == before.templates;
        self.resources_changed = changed(are_resources_same, before.resources_changed);
        self.prompts_changed = changed(self.prompts == before.prompts, before.prompts_changed);
        [self.tools_changed, self.resources_changed, self.prompts_changed].contains(&change)
    }

    /// The tool of that name.
    pub(crate) fn tool(&self, name: &str) -> Option<&Way<OwnTool>> {
        self.tool_ways.get(name)
    }

    /// The names of a server's tools.
    pub(crate) fn tools_of(&self, server: &str) -> Vec<String> {
        let is_theirs = |tool: &&Tool| self.tool(&tool.name).is_some_and(|way| *way.server == *server);
        self.tools.iter().filter(is_theirs).map(|tool| tool.name.to_string()).collect()
    }

    /// The prompt of that name.
    pub(crate) fn prompt(&self, name: &str) -> Option<&Way<()>> {
        self.prompt_ways.get(name)
    }

    /// The server that has this resource: one that lists it, one whose template fits best, or the only one there is.
    pub(crate) fn resource(&self, uri: &str) -> Option<&Arc<str>> {
        let templates = self.template_ways.iter().filter(|(letters, _)| uri.starts_with(letters.as_str()));
        let template = templates.max_by_key(|(letters, _)| letters.len()).map(|(_, server)| server);
        let only = match &self.resource_servers[..] {
            [only] => Some(only),
            _ => None,
        };
        self.resource_ways.get(uri).or(template).or(only)
    }

    fn take_tools(&mut self, servers: &[(Arc<Server>, Arc<Catalog>)]) {
        let all = || servers.iter().flat_map(|(server, catalog)| catalog.tools.iter().map(move |tool| (server, tool)));
        let wanted: Vec<_> = all().map(|(server, tool)| (&*server.name, &*server.prefix, &*tool.tool.name)).collect();
        for (name, (server, tool)) in Names::default().give(&wanted).into_iter().zip(all()) {
            let mut offered = tool.tool.clone();
            let own = std::mem::replace(&mut offered.name, name.clone().into()).into_owned();
            self.tools.push(offered);
            self.tool_ways.insert(name, Way { server: (&*server.name).into(), own, what: tool.clone() });
        }
    }

    fn take_prompts(&mut self, servers: &[(Arc<Server>, Arc<Catalog>)]) {
        let all =
            || servers.iter().flat_map(|(server, catalog)| catalog.prompts.iter().map(move |prompt| (server, prompt)));
        let wanted: Vec<_> =
            all().map(|(server, prompt)| (&*server.name, &*server.prefix, prompt.name.as_str())).collect();
        for (name, (server, prompt)) in Names::default().give(&wanted).into_iter().zip(all()) {
            let mut offered = prompt.clone();
            let own = std::mem::replace(&mut offered.name, name.clone());
            self.prompts.push(offered);
            self.prompt_ways.insert(name, Way { server: (&*server.name).into(), own, what: () });
        }
    }
}

/// One page of a list and the cursor of the next one.
pub(crate) fn page<T: Clone>(
    all: &[T],
    cursor: Option<&str>,
    page_max: usize,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let bad = || ErrorData::invalid_params("unknown cursor: begin again without one", None);
    let from = match cursor {
        None => 0,
        Some(cursor) => cursor.strip_prefix("from-").and_then(|from| from.parse().ok()).ok_or_else(bad)?,
    };
    let rest = all.get(from..).ok_or_else(bad)?;
    let here = &rest[..rest.len().min(page_max)];
    let next = (here.len() < rest.len()).then(|| format!("from-{}", from + here.len()));
    Ok((here.to_vec(), next))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::catalog::Lists;
    use crate::settings::Reach;

    fn server(name: &str, lists: Value) -> (Arc<Server>, Arc<Catalog>) {
        let server = Server::new(name, Reach::Http { url: String::new(), headers: Vec::new() });
        let catalog = Catalog::read(&serde_json::from_value::<Lists>(lists).unwrap(), &server);
        (Arc::new(server), Arc::new(catalog))
    }

    #[test]
    fn every_name_leads_back_to_its_server() {
        let schema = json!({ "type": "object" });
        let offers = Offers::of(&[
            server(
                "a",
                json!({ "tools": [{ "name": "run", "inputSchema": schema }], "prompts": [{ "name": "greet" }] }),
            ),
            server("b", json!({ "tools": [{ "name": "run", "inputSchema": schema }] })),
        ]);
        let names: Vec<_> = offers.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["a__run", "b__run"]);
        let way = offers.tool("b__run").unwrap();
        assert_eq!((&*way.server, way.own.as_str()), ("b", "run"));
        assert_eq!(&*offers.prompt("a__greet").unwrap().server, "a");
        assert!(offers.tool("run").is_none());
    }

    #[test]
    fn a_resource_is_looked_for_where_it_is_listed_then_where_a_template_fits() {
        let offers = Offers::of(&[
            server(
                "a",
                json!({ "resources": [{ "uri": "x://1", "name": "1" }], "templates": [{ "uriTemplate": "x://{id}", "name": "x" }] }),
            ),
            server(
                "b",
                json!({ "resources": [{ "uri": "x://1", "name": "1" }], "templates": [{ "uriTemplate": "x://deep/{id}", "name": "y" }] }),
            ),
        ]);
        assert_eq!(offers.resources.len(), 1);
        let of = |uri| offers.resource(uri).map(|server| &**server);
        assert_eq!(of("x://1"), Some("a"));
        assert_eq!(of("x://deep/2"), Some("b"));
        assert_eq!(of("x://2"), Some("a"));
        assert_eq!(of("y://2"), None);
    }

    #[test]
    fn pages_hold_everything_once_and_a_strange_cursor_is_refused() {
        let all: Vec<u32> = (0..7).collect();
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let (here, next) = page(&all, cursor.as_deref(), 3).unwrap();
            seen.extend(here);
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, all);
        for strange in ["", "7", "from-x", "from-8"] {
            page(&all, Some(strange), 3).unwrap_err();
        }
    }
}

//! The macros that the generated methods are written in: names without values for what can be called and asked, and enums
//! of the parameters by method.

/// Names without values for the methods that we can call.
macro_rules! calls {
    ($(
        $method:literal => $name:ident($params:ty) -> $answer:ty, $extent:ident $(but [$($field:literal),*])?;
    )*) => {
        $(
            #[doc = concat!("`", $method, "`")]
            pub enum $name {}

            impl $crate::protocol::Call for $name {
                const METHOD: &'static str = $method;
                const EXPERIMENTAL: bool = calls!(@ $extent);
                const EXPERIMENTAL_FIELDS: &'static [&'static str] = &[$($($field),*)?];
                type Params = $params;
                type Answer = $answer;
            }
        )*

        /// The method of every call.
        pub const ALL: &[&str] = &[$(<$name as $crate::protocol::Call>::METHOD),*];

        /// Shows every call to a visitor, as a type.
        pub fn each(visitor: &mut impl $crate::protocol::EachCall) {
            $(visitor.visit::<$name>();)*
        }
    };
    (@ stable) => { false };
    (@ experimental) => { true };
}

/// Names without values for the requests that a worker can make.
macro_rules! requests {
    ($($method:literal => $name:ident($params:ty) -> $answer:ty;)*) => {
        $(
            #[doc = concat!("`", $method, "`")]
            pub enum $name {}

            impl $crate::protocol::Request for $name {
                const METHOD: &'static str = $method;
                type Params = $params;
                type Answer = $answer;
            }
        )*

        /// The method of every request.
        pub const ALL: &[&str] = &[$(<$name as $crate::protocol::Request>::METHOD),*];
    };
}

/// The parameters of one of several methods.
macro_rules! by_method {
    ($(#[$meta:meta])* pub enum $name:ident { $($variant:ident($params:ty) = $method:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        #[serde(tag = "method", content = "params")]
        pub enum $name {
            $(
                #[doc = concat!("`", $method, "`")]
                #[serde(rename = $method)]
                $variant($params),
            )*
            /// A method that we know, with parameters of another shape than we know.
            #[serde(untagged)]
            Unparsed {
                /// The method.
                method: Box<str>,
                /// Its parameters, as they came.
                params: Option<Json>,
                /// What does not fit.
                #[serde(skip)]
                reason: Box<str>,
            },
            /// A method that is newer than we are.
            #[serde(untagged)]
            Other {
                /// The method.
                method: Box<str>,
                /// Its parameters, as they came.
                params: Option<Json>,
            },
        }

        impl $name {
            /// The methods that we know.
            pub const KNOWN: &'static [&'static str] = &[$($method),*];

            /// Types the parameters of a method. Whatever they are, something comes of it.
            #[must_use]
            pub fn read(method: &str, params: Option<&Json>) -> Self {
                match Self::parse(method, params.map_or("null", Json::get)) {
                    Ok(Some(known)) => known,
                    Ok(None) => Self::Other { method: method.into(), params: params.cloned() },
                    Err(error) => Self::Unparsed {
                        method: method.into(),
                        params: params.cloned(),
                        reason: error.to_string().into(),
                    },
                }
            }

            /// Types the parameters of a method that we know.
            ///
            /// # Errors
            /// The parameters are of another shape than we know.
            pub fn parse(method: &str, params: &str) -> serde_json::Result<Option<Self>> {
                Ok(Some(match method {
                    $($method => Self::$variant(serde_json::from_str(params)?),)*
                    _ => return Ok(None),
                }))
            }

            /// The method.
            #[must_use]
            pub fn method(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $method,)*
                    Self::Unparsed { method, .. } | Self::Other { method, .. } => method,
                }
            }
        }
    };
}

pub(super) use {by_method, calls, requests};

//! What a person says, in the form of the dialect: `{"type":"text","data":{"text":…}}`.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// One piece of what is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputItem {
    /// Words.
    Text {
        /// The words.
        text: Box<str>,
    },
    /// An image.
    Image {
        /// A `data:` URL that holds it as base64.
        image_url: Box<str>,
    },
    /// An image that the worker reads.
    LocalImage {
        /// Its file.
        path: Box<str>,
    },
}

impl InputItem {
    /// Words.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text { text: text.into() }
    }
}

impl Serialize for InputItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, data) = match self {
            Self::Text { text } => ("text", Data { text: Some(text), ..Data::default() }),
            Self::Image { image_url } => {
                let url = Some(&**image_url);
                ("image", Data { image_url: url, image_url_mirror: url, ..Data::default() })
            }
            Self::LocalImage { path } => ("localImage", Data { path: Some(path), ..Data::default() }),
        };
        let mut item = serializer.serialize_struct("InputItem", 2)?;
        item.serialize_field("type", kind)?;
        item.serialize_field("data", &data)?;
        item.end()
    }
}

/// Workers want `image_url`, although all else is spelled `likeThis`.
#[derive(Default, Serialize)]
struct Data<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_url: Option<&'a str>,
    #[serde(rename = "imageUrl", skip_serializing_if = "Option::is_none")]
    image_url_mirror: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
}

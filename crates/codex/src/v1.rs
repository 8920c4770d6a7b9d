//! stub
use crate::event::{Placed, Told};
use wire::Json;
#[derive(Default)]
pub struct Reader {}
impl Reader {
    pub fn notification(&mut self, _m: &str, _p: &Json, _t: &mut Vec<Told>) {}
    pub fn request(&mut self, _i: &str, _m: &str, _p: &Json) -> Option<Placed> {
        None
    }
    pub fn forget(&mut self, _t: &str) {}
}

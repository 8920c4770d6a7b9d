//! To know what a line is costs no memory.

use allocation_counter::measure;
use wire::{Limits, peek};

#[test]
fn a_line_is_looked_at_without_an_allocation() {
    let lines = [
        r#"{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","itemId":"m","delta":"naïve \"word\" \n"},"emittedAtMs":1794767104297}"#,
        r#"{"method":"item/completed","params":{"item":{"type":"agentMessage","id":"m","text":"a","parts":[[{"x":[1.5e3,null,true]}]]}}}"#,
        r#"{"id":7,"result":{"thread":{"id":"t"}}}"#,
        r#"{"id":"seven","method":"item/tool/call","params":{"arguments":{}}}"#,
        r#"{"id":8,"error":{"code":-32602,"message":"no"}}"#,
    ];
    for line in lines {
        let allocated = measure(|| assert!(peek(line.as_bytes(), Limits::default().depth_max).is_ok(), "{line}"));
        assert_eq!(allocated.count_total, 0, "{line}");
    }
    assert_ne!(measure(|| drop(lines[0].to_owned())).count_total, 0, "what is allocated is counted");
}

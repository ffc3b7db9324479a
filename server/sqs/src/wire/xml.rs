//! The Query protocol's answers in XML.

use super::reply::{Reply, Value};
use crate::errors::{Error, Kind};

const DECLARATION: &str = "<?xml version=\"1.0\"?>";
/// The namespace of SQS answers.
pub const SQS: &str = "http://queue.amazonaws.com/doc/2012-11-05/";
/// The namespace of STS answers.
pub const STS: &str = "https://sts.amazonaws.com/doc/2011-06-15/";

/// The answer to `action`.
pub fn reply(namespace: &str, action: &str, reply: &Reply, request_id: &str) -> String {
    let mut out = String::with_capacity(512);
    out.push_str(DECLARATION);
    out.push_str(&format!("<{action}Response xmlns=\"{namespace}\">"));
    if !reply.empty {
        let name = format!("{action}Result");
        if reply.shown().next().is_none() {
            out.push_str(&format!("<{name}/>"));
        } else {
            element(&mut out, &name, |out| structure(out, reply));
        }
    }
    element(&mut out, "ResponseMetadata", |out| {
        text_element(out, "RequestId", request_id)
    });
    out.push_str(&format!("</{action}Response>"));
    out
}

/// The answer to what failed.
pub fn error(namespace: &str, error: &Error, request_id: &str) -> String {
    if error.kind == Kind::UnknownOperation {
        return "<UnknownOperationException/>\n".to_owned();
    }
    let mut out = String::with_capacity(512);
    out.push_str(DECLARATION);
    out.push_str(&format!("<ErrorResponse xmlns=\"{namespace}\">"));
    element(&mut out, "Error", |out| {
        text_element(out, "Type", error.row().fault.query());
        text_element(out, "Code", error.row().code);
        text_element(out, "Message", error.query_text());
        out.push_str("<Detail/>");
    });
    text_element(&mut out, "RequestId", request_id);
    out.push_str("</ErrorResponse>");
    out
}

fn structure(out: &mut String, reply: &Reply) {
    for field in reply.shown() {
        value(out, field.xml, &field.value);
    }
}

fn value(out: &mut String, name: &str, value: &Value) {
    match value {
        Value::Text(text) => text_element(out, name, text),
        Value::Number(number) => text_element(out, name, &number.to_string()),
        Value::Flag(flag) => text_element(out, name, if *flag { "true" } else { "false" }),
        Value::List(items) => items.iter().for_each(|item| self::value(out, name, item)),
        Value::Map { key, entries } => {
            for (entry, value) in entries {
                element(out, name, |out| {
                    text_element(out, key, entry);
                    self::value(out, "Value", value);
                });
            }
        }
        Value::Structure(reply) => element(out, name, |out| structure(out, reply)),
    }
}

fn element(out: &mut String, name: &str, content: impl FnOnce(&mut String)) {
    out.push('<');
    out.push_str(name);
    out.push('>');
    content(out);
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}

fn text_element(out: &mut String, name: &str, text: &str) {
    element(out, name, |out| escape(out, text));
}

/// Escapes text so that a parser returns it to the letter: a bare carriage return would be read as a line feed.
/// What XML cannot express at all only occurs in what a client sent and is echoed in an error; it is replaced.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\r' => out.push_str("&#xD;"),
            '\t' | '\n' => out.push(c),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_result_is_an_empty_element() {
        let reply = self::reply(SQS, "ReceiveMessage", &Reply::new(), "id");
        assert!(reply.contains("<ReceiveMessageResult/>"), "{reply}");
        let reply = self::reply(SQS, "DeleteQueue", &Reply::done(), "id");
        assert!(reply.contains("<DeleteQueueResponse xmlns="), "{reply}");
        assert!(!reply.contains("Result"), "{reply}");
    }

    #[test]
    fn maps_are_flattened_and_text_is_escaped() {
        let entries = vec![("a".to_owned(), Value::Text("<\r&\u{0}".into()))];
        let reply = Reply::new().named(
            "Attributes",
            "Attribute",
            Value::Map {
                key: "Name",
                entries,
            },
        );
        let xml = self::reply(SQS, "GetQueueAttributes", &reply, "id");
        assert!(
            xml.contains(
                "<Attribute><Name>a</Name><Value>&lt;&#xD;&amp;\u{fffd}</Value></Attribute>"
            ),
            "{xml}"
        );
    }

    #[test]
    fn an_error_has_an_empty_detail_and_its_own_words() {
        let xml = error(SQS, &Error::of(Kind::QueueDoesNotExist), "id");
        assert!(
            xml.contains(
                "<Error><Type>Sender</Type><Code>AWS.SimpleQueueService.NonExistentQueue</Code><Message>The \
                 specified queue does not exist for this wsdl version.</Message><Detail/></Error>"
            ),
            "{xml}"
        );
    }
}

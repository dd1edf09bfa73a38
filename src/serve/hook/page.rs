//! The page of an approval link: HTML without a script, and the headers that hold it to that.

use super::link::{LinkDetail, LinkState};
use crate::base::text::steers;
use crate::process::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;
use std::sync::LazyLock;

/// The style of the page. The page's policy permits this text and no other.
const STYLE: &str = "\
:root{color-scheme:light dark;--text:#16191f;--page:#f6f7f9;--card:#fff;--line:#6b7280;--main:#1d4ed8;--on-main:#fff}\
@media(prefers-color-scheme:dark){:root{--text:#e8eaed;--page:#111318;--card:#1b1e25;--line:#8b93a1;--main:#8ab4f8;--on-main:#0b1220}}\
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,sans-serif}\
main{max-width:40rem;margin:10vh auto;padding:1.5rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem}\
h1{margin:0 0 .5rem;font-size:1.4rem;overflow-wrap:anywhere}p{white-space:pre-line;overflow-wrap:anywhere}\
.about{font-size:.875rem}textarea{width:100%;min-height:5rem;font:inherit;color:inherit;background:var(--page);border:1px solid var(--line);border-radius:.25rem;padding:.5rem}\
.buttons{display:flex;flex-wrap:wrap;gap:.75rem;margin-top:1rem}\
button{font:inherit;padding:.5rem 1.25rem;min-height:2.75rem;border:2px solid var(--main);border-radius:.25rem;background:transparent;color:var(--text);cursor:pointer;overflow-wrap:anywhere}\
button:first-child{background:var(--main);color:var(--on-main)}:focus-visible{outline:3px solid var(--main);outline-offset:2px}";

static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = STANDARD.encode(digest::digest(&digest::SHA256, STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'"
    )
});

/// The headers of the page.
pub(crate) fn headers() -> [(&'static str, &'static str); 9] {
    [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", POLICY.as_str()),
        ("x-content-type-options", "nosniff"),
        // Not `no-referrer`: then a browser does not say that the form is of this page.
        ("referrer-policy", "same-origin"),
        ("cache-control", "no-store"),
        ("x-robots-tag", "noindex, nofollow"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ]
}

/// What the page says.
pub(crate) enum Page<'a> {
    /// Of a link: what is asked, or why nothing can be answered any more.
    Link { detail: &'a LinkDetail, workflow: &'a str, run: &'a str, expires: Timestamp, state: LinkState },
    /// The signal is recorded.
    Done,
    /// Something else: a title and a text.
    Other(&'a str, &'a str),
}

impl Page<'_> {
    /// Returns the page as HTML.
    pub(crate) fn to_html(&self) -> String {
        let (title, content) = match self {
            Self::Done => ("Recorded", "<p>Your answer is recorded. You can close this page.</p>".to_owned()),
            Self::Other(title, text) => (*title, format!("<p>{}</p>", escaped(text))),
            Self::Link { state: LinkState::Used(at), .. } => {
                ("Answered", format!("<p>This link was used at {}. It cannot be used again.</p>", shown(*at)))
            }
            Self::Link { state: LinkState::Expired, expires, .. } => {
                ("Too late", format!("<p>This link ended at {}. Ask for a new one.</p>", shown(*expires)))
            }
            Self::Link { state: LinkState::Open, detail, workflow, run, expires } => {
                let title = detail.title.as_deref().unwrap_or("Your answer is asked for");
                (title, form(detail, workflow, run, *expires))
            }
        };
        let title = escaped(title);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"robots\" content=\"noindex, nofollow\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
             </head>\n<body>\n<main>\n<h1>{title}</h1>\n{content}\n</main>\n</body>\n</html>\n"
        )
    }
}

fn form(detail: &LinkDetail, workflow: &str, run: &str, expires: Timestamp) -> String {
    let text = detail.text.as_deref().map(|text| format!("<p>{}</p>\n", escaped(text))).unwrap_or_default();
    let buttons = detail.buttons();
    let comment = if buttons.iter().any(|choice| choice.body.is_object()) {
        "<label for=\"comment\">Comment (optional)</label>\n\
         <textarea id=\"comment\" name=\"comment\" maxlength=\"4000\"></textarea>\n"
    } else {
        ""
    };
    let buttons = buttons.iter().enumerate().map(|(number, choice)| {
        format!("<button type=\"submit\" name=\"choice\" value=\"{number}\">{}</button>\n", escaped(&choice.label))
    });
    let buttons: String = buttons.collect();
    format!(
        "{text}<form method=\"post\" autocomplete=\"off\">\n{comment}<div class=\"buttons\">\n{buttons}</div>\n</form>\n\
         <p class=\"about\">Workflow {}, run {}. This link can be used once, until {}.</p>",
        escaped(workflow),
        escaped(run),
        shown(expires),
    )
}

/// A time, for people, to the second.
fn shown(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_microsecond(at.0.cast_signed()).unwrap_or_default();
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A text as HTML. What would change how the text around it is read is replaced: control characters
/// and those that turn the direction of writing.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(character),
            character if steers(character) => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}

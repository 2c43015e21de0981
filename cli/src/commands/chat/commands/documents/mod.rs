//! Commands that look at the text of the documents: `/show`, `/find`, `/sources`. They use the text with its outline, and
//! no model.

mod find;
mod show;

use longhand::Chat;
use longhand::outline::Outline;

pub use self::find::find;
pub use self::show::show;

/// The texts of the documents, each with its outline, without empty ones.
fn texts(chat: &Chat) -> Vec<(&str, &Outline)> {
    let texts = chat.document_texts().into_iter().zip(chat.document_outlines());
    texts.filter(|(text, _)| !text.is_empty()).collect()
}

//! GLM-4-0414: like ChatGLM, with norms also after attention and after the feed-forward network. Files
//! of GLM-4.1V and GLM-OCR have sections of RoPE, and their weights are in the order that these need. Layers that
//! predict several tokens are at the end of the file. They are not used.

use super::{ArchDecl, Block, RopeSections, chatglm::CHATGLM};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "glm4",
    blocks: &[Block::SANDWICH_NORM],
    rope_sections: RopeSections::Consecutive,
    settings: &["nextn_predict_layers"],
    ..CHATGLM
};

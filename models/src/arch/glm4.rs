//! GLM-4-0414: like ChatGLM, with norms also after attention and after the feed-forward network.

use super::{ArchDecl, Block, chatglm::CHATGLM};

pub(super) static DECL: ArchDecl = ArchDecl { name: "glm4", blocks: &[Block::SANDWICH_NORM], ..CHATGLM };

//! Tests of several crates: models, devices, documents and answers. What needs a process of its own is a file beside this folder.

mod answers;
mod batch;
mod changes;
mod constraints;
mod device;
mod documents;
mod drafts;
mod experts;
mod families;
#[cfg(any(feature = "hip", feature = "metal", feature = "vulkan"))]
mod gpu;
mod head_sizes;
#[cfg(feature = "hip")]
mod hip;
mod int8;
mod intermediates;
mod key_offset;
mod logits;
mod lost_model;
#[cfg(feature = "metal")]
mod metal;
mod model_in_memory;
mod mutations;
mod not_finite;
mod placements;
mod policies_of_models;
mod prediction;
mod reach;
mod reconstruction;
mod recurrent;
mod rotation;
mod rpc;
mod several_devices;
mod shared_rows;
mod sources;
mod sparse;
mod types;
mod unfinished;
#[cfg(feature = "vulkan")]
mod vulkan;
mod windows;

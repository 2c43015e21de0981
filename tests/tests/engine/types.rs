//! Tables in `models`, which does not depend on ggml, equal those of the linked ggml.

use ggml::Context;
use models::spec::RecurrentLayers;
use models::types::TensorType;

#[test]
fn tensor_types_equal_those_of_ggml() {
    for id in 0..256 {
        let (ours, ggmls) = (TensorType::from_id(id), ggml::Type::from_id(id));
        let ours = ours.map(|ty| (ty.name(), ty.block_elems() as usize, ty.block_bytes() as usize));
        let ggmls = ggmls.map(|ty| (ty.name(), ty.block_elements(), ty.block_bytes()));
        assert_eq!(ours, ggmls, "type {id}");
    }
}

#[test]
fn sizes_of_recurrent_layers_equal_those_of_ggml() {
    assert_eq!(RecurrentLayers::CONV_KERNELS, Context::CONV_KERNELS);
    assert_eq!(RecurrentLayers::HEAD_DIMS, Context::DELTA_NET_HEADS);
}

//! The table of tensor types in `models`, which does not depend on ggml, equals that of the linked ggml.

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

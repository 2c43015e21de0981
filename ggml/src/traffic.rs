//! What a graph moves between memory and processors, counted from its nodes. Each operand counts once for each node that
//! reads it, whatever caches hold. Views move nothing.

use ggml_sys as sys;

use crate::graph::{Graph, operands};
use crate::{Shape, Tensor};

/// Bytes that the nodes of a graph read and write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Nodes that compute something.
    pub nodes: usize,
    /// Bytes that they read.
    pub read: usize,
    /// Bytes that they write.
    pub written: usize,
}

impl Graph {
    /// The bytes that ggml's own operations of the graph move. Operations of ours count what their operands hold, although
    /// they read and write parts of these only.
    pub fn traffic(&self) -> Traffic {
        self.traffic_of(|_| true)
    }

    /// The same of what lies in the memory of these tensors only.
    pub fn traffic_in(&self, tensors: &[&Tensor]) -> Traffic {
        self.traffic_of(|tensor| tensors.iter().any(|other| other.root() == tensor.root()))
    }

    fn traffic_of(&self, counts: impl Fn(&Tensor) -> bool) -> Traffic {
        let _state = self.context.read();
        let mut sum = Traffic::default();
        for node in self.nodes(self.all()) {
            // SAFETY: a field of a live descriptor that never changes.
            let op = unsafe { (*node.raw.as_ptr()).op };
            let sources: Vec<Tensor> = operands(&node).map(|raw| self.context.handle(raw)).collect();
            let (read, written) = match (op, &sources[..]) {
                (
                    sys::GGML_OP_NONE
                    | sys::GGML_OP_VIEW
                    | sys::GGML_OP_RESHAPE
                    | sys::GGML_OP_PERMUTE
                    | sys::GGML_OP_TRANSPOSE,
                    _,
                ) => continue,
                // The rows of the first operand, to which the result belongs.
                (sys::GGML_OP_SET_ROWS, [from, numbers, ..]) => {
                    let rows = bytes_as(from.shape(), &node);
                    (vec![(from, elements(from)), (numbers, elements(numbers))], (&node, rows))
                }
                // As many rows of the first operand as the result has.
                (sys::GGML_OP_GET_ROWS, [table, numbers, ..]) => {
                    let rows = bytes_as(node.shape(), table);
                    (vec![(table, rows), (numbers, elements(numbers))], (&node, elements(&node)))
                }
                // The second operand is where the result is.
                (sys::GGML_OP_CPY, [from, ..]) => (vec![(from, elements(from))], (&node, elements(&node))),
                (_, sources) => {
                    let read = sources.iter().map(|source| (source, elements(source)));
                    (read.collect(), (&node, elements(&node)))
                }
            };
            let of = |(tensor, bytes): (&Tensor, usize)| if counts(tensor) { bytes } else { 0 };
            sum.nodes += 1;
            sum.read += read.into_iter().map(of).sum::<usize>();
            sum.written += of(written);
        }
        sum
    }
}

/// Bytes of the elements of a tensor, without gaps.
fn elements(tensor: &Tensor) -> usize {
    bytes_as(tensor.shape(), tensor)
}

/// Bytes of so many elements of a tensor's type.
fn bytes_as(shape: Shape, tensor: &Tensor) -> usize {
    shape.bytes(tensor.ty()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Type};

    #[test]
    fn bytes_of_rows_and_products_are_counted() {
        let ctx = Context::new(16);
        let table = ctx.input("table", Type::F16, [64, 100, 1]);
        let rows = ctx.input("rows", Type::F32, [64, 3, 1]);
        let numbers = ctx.bounded_rows(&ctx.input("numbers", Type::F32, [3]), 100);
        let written = ctx.set_rows(&table, &rows, &numbers);
        let graph = ctx.graph(&[&written]).expect("a graph");
        let of_table = graph.traffic_in(&[&table]);
        assert_eq!((of_table.read, of_table.written), (0, 3 * 64 * 2));
        let of_rows = graph.traffic_in(&[&rows]);
        assert_eq!((of_rows.read, of_rows.written), (3 * 64 * 4, 0));

        let ctx = Context::new(16);
        let a = ctx.input("a", Type::F16, [64, 100]);
        let b = ctx.input("b", Type::F32, [64, 5]);
        let product = ctx.mul_mat(&ctx.rows(&a, 10, 50), &b);
        let traffic = ctx.graph(&[&product]).expect("a graph").traffic();
        let expected = Traffic { nodes: 1, read: 50 * 64 * 2 + 5 * 64 * 4, written: 50 * 5 * 4 };
        assert_eq!(traffic, expected);
    }
}

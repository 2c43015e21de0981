//! In which form the operations on a layer's lanes are computed: as this crate's own kernels ([`graph`](crate::graph)),
//! which CPUs and NVIDIA GPUs have, or as ggml's own nodes ([`portable`](crate::portable)), which all of its backends have.

use ggml::{Context, Tensor};

use crate::graph::{AttentionShape, GraphLane, MAX_DEVICE_HEAD_DIM, MAX_DEVICE_HEADS, Split};
use crate::portable;

/// An operation: its operands, what must be true of them, and the nodes of each form. [`Form::nodes`] builds these.
pub trait Operation: Sized {
    /// Its name in errors.
    const NAME: &'static str;

    /// An error where the operands do not fit each other.
    fn check(&self) -> Result<(), String>;

    /// The nodes that are computed by own kernels, for operands that fit. Attention splits the rows as `split` says.
    fn own(self, ctx: &Context, split: Split) -> Tensor;

    /// The nodes that every backend of ggml computes, for operands that fit.
    fn portable(self, ctx: &Context) -> Tensor;
}

/// The form in which a place computes the operations of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Kernels of this crate. Attention splits the rows like this.
    Own(Split),
    /// Nodes of ggml. What they need beyond the others is in [`portable`](crate::portable).
    Portable,
}

impl Form {
    /// The nodes of an operation, and their result. Operands that do not fit are a mistake, which
    /// [`Context::graph`] returns.
    pub fn nodes<O: Operation>(self, ctx: &Context, operation: O) -> Tensor {
        match (operation.check(), self) {
            (Err(problem), _) => ctx.refuse(O::NAME, problem),
            (Ok(()), Form::Own(split)) => operation.own(ctx, split),
            (Ok(()), Form::Portable) => operation.portable(ctx),
        }
    }

    /// Whether rows behind the live ones, and compensation entries that are not used yet, are read, so that they must be
    /// numbers.
    pub fn reads_whole_lanes(self) -> bool {
        self == Form::Portable
    }

    /// Maximum number of tensors that any one operation on a lane makes, for `n` tokens and `group` query heads for each
    /// of its heads.
    pub fn max_tensors(self, lane: &GraphLane, group: usize, n: usize) -> usize {
        /// Lists or an offset, statistics, a node for rows and one for positions.
        const OF_OWN: usize = 4;
        match self {
            Form::Own(_) => OF_OWN,
            Form::Portable => portable::max_tensors(lane, group, n),
        }
    }
}

/// The kernels of this crate that a place has. Where it lacks some, [`Form::Portable`] stands in for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// Those of the CPU, with this many threads.
    Cpu {
        /// The maximum number of threads that a graph is computed with.
        threads: usize,
    },
    /// Those of NVIDIA GPUs.
    Gpu {
        /// The maximum number of blocks that work is split over.
        blocks: usize,
    },
    /// None.
    None,
}

impl Kernels {
    /// The form in which such a place computes layers with heads of this shape: own kernels where it has them for these
    /// heads.
    pub fn form(self, shape: AttentionShape) -> Form {
        let AttentionShape { head_dim, n_kv_heads, .. } = shape;
        match self {
            Kernels::Cpu { threads } => Form::Own(Split::Threads(threads)),
            Kernels::Gpu { blocks } if head_dim <= MAX_DEVICE_HEAD_DIM && n_kv_heads <= MAX_DEVICE_HEADS => {
                Form::Own(Split::Blocks(blocks))
            }
            Kernels::Gpu { .. } | Kernels::None => Form::Portable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_own_kernels_for_the_heads_that_they_take() {
        let (cpu, gpu) = (Kernels::Cpu { threads: 3 }, Kernels::Gpu { blocks: 7 });
        let [small, large, many] = [(256, 8), (320, 1), (64, MAX_DEVICE_HEADS + 1)]
            .map(|(d, heads)| AttentionShape::plain(heads, heads, d));
        for shape in [small, large, many] {
            assert_eq!(cpu.form(shape), Form::Own(Split::Threads(3)));
            assert_eq!(Kernels::None.form(shape), Form::Portable);
        }
        assert_eq!(gpu.form(small), Form::Own(Split::Blocks(7)));
        assert_eq!([large, many].map(|shape| gpu.form(shape)), [Form::Portable; 2]);
    }
}

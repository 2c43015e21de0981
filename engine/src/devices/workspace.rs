//! Memory for the intermediates of graphs: one allocator for each place.

use ggml::{Context, Graph, GraphAllocator, ReadyGraph, Tensor};

use crate::EngineError;
use crate::devices::backends::Backends;
use crate::devices::placement::{PerPlace, Place};

/// Memory for one graph at a time in each place.
pub struct Workspace {
    allocators: PerPlace<GraphAllocator>,
}

impl Workspace {
    /// A workspace without memory yet.
    pub fn new(backends: &Backends) -> Workspace {
        Workspace {
            allocators: (backends.placement())
                .per_place(|place| GraphAllocator::new(&backends.at(place).buffer_type())),
        }
    }

    /// The allocator of a place.
    pub fn at(&mut self, place: Place) -> &mut GraphAllocator {
        &mut self.allocators[place]
    }

    /// Allocates a graph in a place. The graph that was prepared there before becomes invalid.
    pub fn prepare(&mut self, place: Place, graph: Graph) -> Result<ReadyGraph, ggml::Error> {
        self.at(place).prepare(graph)
    }

    /// Computes `nodes` in a place, to their end.
    pub fn run(
        &mut self,
        backends: &Backends,
        place: Place,
        ctx: &Context,
        nodes: &[Tensor],
    ) -> Result<(), EngineError> {
        if nodes.is_empty() {
            return Ok(());
        }
        let results: Vec<&Tensor> = nodes.iter().collect();
        let graph = self.prepare(place, ctx.graph(&results)?)?;
        Ok(backends.at(place).compute(&graph)?)
    }

    /// Bytes allocated in all places.
    pub fn bytes(&self) -> usize {
        self.allocators.iter().map(|(_, allocator)| allocator.bytes()).sum()
    }
}

//! Memory for graphs, one allocator in each place.

use ggml::{Context, Graph, GraphAllocator, ReadyGraph, Tensor};

use crate::EngineError;
use crate::backends::Backends;
use crate::placement::Place;

/// Memory for the graphs of one after the other, in each place.
pub struct Workspace {
    allocators: [GraphAllocator; 2],
}

impl Workspace {
    /// Empty ones.
    pub fn new(devices: &Backends) -> Workspace {
        Workspace {
            allocators: Place::ALL.map(|place| GraphAllocator::new(&devices.at(place).buffer_type())),
        }
    }

    /// The allocator of a place.
    pub fn at(&mut self, place: Place) -> &mut GraphAllocator {
        &mut self.allocators[place as usize]
    }

    /// Gives a graph memory in a place; the last one that had memory there becomes stale.
    pub fn prepare(&mut self, place: Place, graph: Graph) -> Result<ReadyGraph, ggml::Error> {
        self.at(place).prepare(graph)
    }

    /// Computes nodes in a place, to the end whatever the interrupt flag says.
    pub fn run(
        &mut self,
        devices: &Backends,
        place: Place,
        ctx: &Context,
        nodes: &[Tensor],
    ) -> Result<(), EngineError> {
        if nodes.is_empty() {
            return Ok(());
        }
        let results: Vec<&Tensor> = nodes.iter().collect();
        let graph = self.prepare(place, ctx.graph(&results)?)?;
        Ok(devices.at(place).compute_to_end(&graph)?)
    }

    /// Bytes held now, in a place.
    pub fn bytes(&self, place: Place) -> usize {
        self.allocators[place as usize].bytes()
    }
}

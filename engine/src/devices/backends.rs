//! The backends that compute a model: the host, and devices for what the placement has there.

use std::sync::Arc;
use std::time::Instant;

use ggml::{Backend, Context, GraphAllocator, InterruptFlag, ReadyGraph, Tensor, Type};
use kernels::graph::AttentionShape;
use kernels::{Form, Kernels};

use crate::devices::placement::{PerPlace, Place, Placement};
use crate::{EngineError, Model};

/// The backends of all places.
pub struct Backends {
    backends: PerPlace<Backend>,
    kernels: PerPlace<Kernels>,
    placement: Placement,
    /// The model whose file is checked after each computation.
    model: Option<Arc<Model>>,
}

#[cfg(test)]
impl Backends {
    /// One thread of the host, for a model of one layer.
    pub(crate) fn host() -> Backends {
        Backends::new(Backend::cpu(1).expect("starts"), Vec::new(), Placement::new(1, 0))
    }
}

impl Backends {
    /// Backends for a model whose layers are placed so, with one for each device of the placement, in its order. Without
    /// devices all layers are on the host.
    pub fn new(host: Backend, devices: Vec<Backend>, placement: Placement) -> Backends {
        let placement = if devices.is_empty() { placement.all_on_host() } else { placement };
        let backends = PerPlace::from_parts(devices, host);
        let kernels = PerPlace::new(placement.devices(), |place| match (place, &backends[place]) {
            (Place::Host, host) => Kernels::Cpu { threads: host.threads() },
            (_, device) if device.has_own_operations() => Kernels::Gpu { blocks: device.blocks() },
            _ => Kernels::None,
        });
        Backends { backends, kernels, placement, model: None }
    }

    /// The same backends for computations with the weights of `model`.
    pub(crate) fn with_model(self, model: &Arc<Model>) -> Backends {
        Backends { model: Some(model.clone()), ..self }
    }

    /// Computes a graph in a place, to its end or until `interrupt` is set.
    ///
    /// # Errors
    /// Where the computation fails or is interrupted, or the model file is no longer complete. The results
    /// may then follow from zeros instead of the weights.
    pub(crate) fn compute(
        &self,
        place: Place,
        graph: &ReadyGraph,
        interrupt: Option<&InterruptFlag>,
    ) -> Result<(), EngineError> {
        match interrupt {
            Some(interrupt) => self.at(place).compute_until(graph, interrupt)?,
            None => self.at(place).compute(graph)?,
        }
        self.check_model()
    }

    /// Starts a graph in a place, as [`Backend::start`] does: whoever reads its results waits for them.
    ///
    /// # Errors
    /// As [`Backends::compute`].
    pub(crate) fn start(
        &self,
        place: Place,
        graph: &ReadyGraph,
        interrupt: Option<&InterruptFlag>,
    ) -> Result<(), EngineError> {
        self.at(place).start(graph, interrupt)?;
        self.check_model()
    }

    /// Waits for the graphs that were started in a place.
    pub(crate) fn wait(&self, place: Place) -> Result<(), EngineError> {
        Ok(self.at(place).wait()?)
    }

    fn check_model(&self) -> Result<(), EngineError> {
        Ok(self.model.as_ref().map_or(Ok(()), |model| model.gguf().check_complete())?)
    }

    /// Which layers are where.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The kernels of each place.
    pub fn kernels(&self) -> &PerPlace<Kernels> {
        &self.kernels
    }

    /// The form in which a place computes layers with heads of this shape.
    pub fn form(&self, place: Place, heads: AttentionShape) -> Form {
        self.kernels[place].form(heads)
    }

    /// The backend of a place of the placement.
    pub fn at(&self, place: Place) -> &Backend {
        &self.backends[place]
    }
}

/// Memory bandwidth of a backend in bytes a second, reads and writes together. It is the best of `passes`,
/// each of which copies `bytes` several times within the backend's memory.
pub(crate) fn copy_bandwidth(backend: &Backend, bytes: usize, passes: usize) -> Result<f64, EngineError> {
    /// Copies in a pass: enough that the time to start them does not count.
    const COPIES: usize = 8;
    let (memory, ctx) = (Context::new(2), Context::new(4 * COPIES));
    let [from, to] = [(); 2].map(|()| memory.tensor(Type::F32, [bytes / size_of::<f32>()]));
    memory.allocate(&backend.buffer_type())?;
    let copies: Vec<Tensor> = (0..COPIES).map(|_| ctx.copy(&from, &to)).collect();
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(ctx.graph(&copies.iter().collect::<Vec<_>>())?)?;
    let mut best = f64::INFINITY;
    for _ in 0..passes.max(1) {
        let started = Instant::now();
        backend.compute(&graph)?;
        // Another machine is done when it answers.
        to.read(0, &mut [0f32])?;
        best = best.min(started.elapsed().as_secs_f64());
    }
    Ok((2 * COPIES * from.bytes()) as f64 / best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_bandwidth_is_finite_and_positive() {
        let backend = Backend::cpu(1).expect("starts");
        let speed = copy_bandwidth(&backend, 1 << 20, 2).expect("copies");
        assert!(speed > 1e6 && speed.is_finite(), "{speed}");
    }
}

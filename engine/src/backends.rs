//! The backends that compute a model: the host's, and a device's for the last layers.

use std::time::Instant;

use ggml::{Backend, Context, GraphAllocator, Tensor, Type};

use crate::EngineError;
use crate::placement::{Place, Placement};

/// What computes.
pub struct Backends {
    host: Backend,
    device: Option<Backend>,
    placement: Placement,
}

impl Backends {
    /// The host, and a device for the last `on_device` of `layers` layers.
    pub fn new(host: Backend, device: Option<Backend>, layers: usize, on_device: usize) -> Backends {
        let on_device = if device.is_some() { on_device } else { 0 };
        Backends { host, device, placement: Placement::new(layers, on_device) }
    }

    /// Which layers are where.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// What computes in a place; the host where there is no device.
    pub fn at(&self, place: Place) -> &Backend {
        match (place, &self.device) {
            (Place::Device, Some(device)) => device,
            _ => &self.host,
        }
    }
}

/// Bytes a second, read and written together, of copying `bytes` from one place of a backend's memory to another: the best of
/// `passes`. On a device, where no other way to measure its memory is as good.
pub fn copy_bandwidth(backend: &Backend, bytes: usize, passes: usize) -> Result<f64, EngineError> {
    /// Copies of a pass, so that starting them weighs little.
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
        best = best.min(started.elapsed().as_secs_f64());
    }
    Ok((2 * COPIES * from.bytes()) as f64 / best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_time() {
        let backend = Backend::cpu(1, Default::default()).expect("starts");
        let speed = copy_bandwidth(&backend, 1 << 20, 2).expect("copies");
        assert!(speed > 1e6 && speed.is_finite(), "{speed}");
    }
}

//! Where a model is computed: the host, or a device for its last layers. A layer's weights, rows and computation are in one place;
//! between the places goes only the residual stream. The embedding is always looked up on the host.

use crate::EngineError;
use ggml::{Backend, Context, Graph, GraphAllocator, ReadyGraph, Tensor, Type};
use std::ops::Range;
use std::time::Instant;

/// One of the two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The host's memory and processor.
    Host,
    /// The device.
    Device,
}

impl Place {
    /// Both, in the order in which a token passes them.
    pub const ALL: [Place; 2] = [Place::Host, Place::Device];
}

/// Which layers are where: the first ones on the host, the others on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    layers: usize,
    on_host: usize,
}

impl Placement {
    /// `layers` layers of which the last `on_device` are on the device.
    pub fn new(layers: usize, on_device: usize) -> Placement {
        Placement { layers, on_host: layers.saturating_sub(on_device) }
    }

    /// Where a layer is.
    pub fn of(&self, layer: usize) -> Place {
        if layer < self.on_host { Place::Host } else { Place::Device }
    }

    /// Where the output matrix is: with the last layer.
    pub fn of_output(&self) -> Place {
        if self.on_host < self.layers { Place::Device } else { Place::Host }
    }

    /// Where a tensor of the model is, by its name in the file. RoPE's factors are needed wherever there are layers; this is the
    /// place of the first.
    pub fn of_tensor(&self, name: &str) -> Place {
        let layer = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok());
        match (name, layer) {
            (_, Some(layer)) => self.of(layer),
            ("token_embd.weight", _) => Place::Host,
            ("rope_freqs.weight", _) => self.of(0),
            _ => self.of_output(),
        }
    }

    /// The layers in a place.
    pub fn layers(&self, place: Place) -> Range<usize> {
        match place {
            Place::Host => 0..self.on_host,
            Place::Device => self.on_host..self.layers,
        }
    }

    /// Layers on the device.
    pub fn on_device(&self) -> usize {
        self.layers - self.on_host
    }
}

/// What computes.
pub struct Devices {
    host: Backend,
    device: Option<Backend>,
    placement: Placement,
}

impl Devices {
    /// The host, and a device for the last `on_device` of `layers` layers.
    pub fn new(host: Backend, device: Option<Backend>, layers: usize, on_device: usize) -> Devices {
        let on_device = if device.is_some() { on_device } else { 0 };
        Devices { host, device, placement: Placement::new(layers, on_device) }
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

/// Memory for the graphs of one after the other, in each place.
pub struct Workspace {
    allocators: [GraphAllocator; 2],
}

impl Workspace {
    /// Empty ones.
    pub fn new(devices: &Devices) -> Workspace {
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
        devices: &Devices,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_time() {
        let backend = Backend::cpu(1, Default::default()).expect("starts");
        let speed = copy_bandwidth(&backend, 1 << 20, 2).expect("copies");
        assert!(speed > 1e6 && speed.is_finite(), "{speed}");
    }

    #[test]
    fn the_last_layers_and_the_output_are_on_the_device() {
        let split = Placement::new(4, 1);
        assert_eq!((split.layers(Place::Host), split.layers(Place::Device)), (0..3, 3..4));
        assert_eq!(
            (split.of(2), split.of(3), split.of_output()),
            (Place::Host, Place::Device, Place::Device)
        );
        for (name, place) in [
            ("token_embd.weight", Place::Host),
            ("blk.2.attn_q.weight", Place::Host),
            ("blk.3.ffn_down.weight", Place::Device),
            ("output.weight", Place::Device),
            ("output_norm.weight", Place::Device),
            ("rope_freqs.weight", Place::Host),
        ] {
            assert_eq!(split.of_tensor(name), place, "{name}");
        }
        let (none, all) = (Placement::new(4, 0), Placement::new(4, 9));
        assert_eq!((none.of_output(), none.on_device()), (Place::Host, 0));
        assert_eq!(
            (all.of(0), all.on_device(), all.of_tensor("rope_freqs.weight")),
            (Place::Device, 4, Place::Device)
        );
        assert_eq!(all.of_tensor("token_embd.weight"), Place::Host);
    }
}

//! Placement: which layers are on the host and which on a device. A layer's weights, its keys and values and
//! its computation are in one place. Only the residual stream goes from one place to the other. Embeddings
//! are always looked up on the host.

use std::ops::Range;

/// Where something is stored and computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The host: main memory and CPU.
    Host,
    /// The device: a GPU.
    Device,
}

impl Place {
    /// Both places, in the order of the layers.
    pub const ALL: [Place; 2] = [Place::Host, Place::Device];
}

/// Which layers are where: the first layers are on the host, the last ones on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    layers: usize,
    on_host: usize,
}

impl Placement {
    /// The placement of `layers` layers, the last `on_device` of which are on the device.
    pub fn new(layers: usize, on_device: usize) -> Placement {
        Placement { layers, on_host: layers.saturating_sub(on_device) }
    }

    /// The place of a layer.
    pub fn of(&self, layer: usize) -> Place {
        if layer < self.on_host { Place::Host } else { Place::Device }
    }

    /// The place of the output matrix: that of the last layer.
    pub fn of_output(&self) -> Place {
        if self.on_host < self.layers { Place::Device } else { Place::Host }
    }

    /// The place of a tensor, by its name in the file. RoPE's factors are needed in every place with layers;
    /// this gives the place of the first layer.
    pub fn of_tensor(&self, name: &str) -> Place {
        let layer = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok());
        match layer {
            Some(layer) => self.of(layer),
            _ if ["token_embd", "position_embd", "per_layer_"].iter().any(|part| name.starts_with(part)) => {
                Place::Host
            }
            _ if name.starts_with("rope_") => self.of(0),
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

    /// Number of layers on the device.
    pub fn on_device(&self) -> usize {
        self.layers - self.on_host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("rope_factors_long.weight", Place::Host),
            ("token_embd_norm.bias", Place::Host),
            ("position_embd.weight", Place::Host),
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

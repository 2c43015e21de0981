//! Where a model is computed: the host, or a device for its last layers. A layer's weights, rows and computation are in one place;
//! between the places goes only the residual stream. The embedding is always looked up on the host.

use std::ops::Range;

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

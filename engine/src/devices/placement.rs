//! Placement: which layers are on the host and which on devices. A layer's keys and values, its weights and its
//! computation are in one place, but for its experts. Those of the first layers may be on the host although the rest of
//! the layer is on a device: experts are most of a model's bytes, and each token reads few of them. Only activations
//! go from one place to another. Embeddings are always looked up on the host, also those that layers have of their own.
//! Layers that attend to the rows of others are where these are. The residual stream of a text that is
//! read layer by layer is where the layer is, or all of it on the host.

use std::ops::Range;

use models::spec::ModelSpec;

pub use super::per_place::PerPlace;

/// Where something is stored and computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A device such as a GPU, by its number among those that a model is placed on, from 0.
    Device(usize),
    /// The host: main memory and CPU.
    Host,
}

/// The most devices that a model is placed on.
pub const MAX_DEVICES: usize = 16;

/// Which layers are where: the first layers are on the host, the others on the devices, in their order.
///
/// ```
/// use longhand::setup::plan::Placement;
///
/// // Of 48 layers the last 40 are on a device, but the experts of the layers 8 to 19 are on the host.
/// let placement = Placement::new(48, 40).with_host_experts(20);
/// assert_eq!((placement.on_devices(), placement.host_experts()), (40, 20));
/// // 8 layers are on the host, 30 on the first device and 10 on the second.
/// assert_eq!(Placement::over(48, &[30, 10]).counts(), [30, 10]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    layers: usize,
    devices: usize,
    /// The first layer of each device. The layers of a device end where those of the next one begin.
    firsts: [usize; MAX_DEVICES],
    /// Of how many of the first layers the experts are on the host, at least those of layers there.
    host_experts: usize,
    host_residual: bool,
}

impl Place {
    /// Whether it is a device.
    pub fn is_device(self) -> bool {
        self != Place::Host
    }
}

impl Placement {
    /// The placement of `layers` layers, the last `on_device` of which are on one device.
    pub fn new(layers: usize, on_device: usize) -> Placement {
        Placement::over(layers, &[on_device])
    }

    /// The placement of `layers` layers over 16 devices at most. Each has so many of them, in their order,
    /// and the last layer is on the last device. Where there are fewer layers, the first devices have none.
    pub fn over(layers: usize, counts: &[usize]) -> Placement {
        let counts = &counts[..counts.len().min(MAX_DEVICES)];
        let (mut firsts, mut first) = ([0; MAX_DEVICES], layers);
        for (device, count) in counts.iter().enumerate().rev() {
            first = first.saturating_sub(*count);
            firsts[device] = first;
        }
        Placement { layers, devices: counts.len(), firsts, host_experts: first, host_residual: false }
    }

    /// The same, but the last `joint` layers are all in one place: on the device for which the fewest layers move, the last of
    /// several. It takes all layers behind its own, and those before it that are missing.
    pub fn with_joint_layers(layers: usize, joint: usize, counts: &[usize]) -> Placement {
        let mut counts = Placement::over(layers, counts).counts();
        let behind = |device: usize| counts[device + 1..].iter().sum::<usize>();
        let missing = |device: usize| joint.saturating_sub(counts[device] + behind(device));
        let of_devices = (0..counts.len()).rev().filter(|device| counts[*device] > 0);
        if let Some(device) = of_devices.min_by_key(|device| behind(*device) + missing(*device)) {
            let (behind, mut missing) = (behind(device), missing(device));
            counts[device] += behind + missing;
            counts[device + 1..].fill(0);
            for count in counts[..device].iter_mut().rev() {
                let taken = missing.min(*count);
                (*count, missing) = (*count - taken, missing - taken);
            }
        }
        Placement::over(layers, &counts)
    }

    /// The same, but the experts of the first `layers` layers are on the host, and what chooses them.
    pub fn with_host_experts(self, layers: usize) -> Placement {
        Placement { host_experts: layers.clamp(self.on_host(), self.layers), ..self }
    }

    /// The same, but between the layers the residual stream of a text that is read layer by layer is on the host. Each
    /// chunk comes to a device for the time that a layer there computes it.
    pub fn with_host_residual(self) -> Placement {
        Placement { host_residual: true, ..self }
    }

    /// The same layers, with the residual stream where they are.
    pub(crate) fn without_residual(self) -> Placement {
        Placement { host_residual: false, ..self }
    }

    /// The same layers, all on the host.
    pub fn all_on_host(self) -> Placement {
        Placement::over(self.layers, &[])
    }

    /// How many devices there are, those without layers included.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// All places: the devices in the order of the layers, and the host.
    pub fn places(&self) -> impl Iterator<Item = Place> + use<> {
        (0..self.devices).map(Place::Device).chain([Place::Host])
    }

    /// What `of` gives for each place.
    pub fn per_place<T>(&self, of: impl FnMut(Place) -> T) -> PerPlace<T> {
        PerPlace::new(self.devices, of)
    }

    /// The place of a layer.
    pub fn of(&self, layer: usize) -> Place {
        let device = self.firsts[..self.devices].iter().rposition(|first| *first <= layer);
        device.map_or(Place::Host, Place::Device)
    }

    /// The place of a layer's experts and their router. Experts that every token uses are where the layer is.
    pub fn of_experts(&self, layer: usize) -> Place {
        if layer < self.host_experts { Place::Host } else { self.of(layer) }
    }

    /// The place of the residual stream before a layer reads a text and after it.
    pub fn of_residual(&self, layer: usize) -> Place {
        if self.host_residual { Place::Host } else { self.of(layer) }
    }

    /// Whether the residual stream is on the host for layers on devices.
    pub fn has_host_residual(&self) -> bool {
        self.host_residual && self.on_devices() > 0
    }

    /// The place of the output matrix: that of the last layer.
    pub fn of_output(&self) -> Place {
        self.layers.checked_sub(1).map_or(Place::Host, |last| self.of(last))
    }

    /// The place of a tensor, by its name in the file. RoPE's factors are needed in every place with layers;
    /// this gives the place of the first layer.
    pub fn of_tensor(&self, name: &str) -> Place {
        let in_layer = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        match in_layer.and_then(|(layer, name)| Some((layer.parse().ok()?, name))) {
            Some((layer, name)) if is_of_experts(name) => self.of_experts(layer),
            Some((layer, _)) => self.of(layer),
            _ if ["token_embd", "position_embd", "per_layer_"].iter().any(|part| name.starts_with(part)) => {
                Place::Host
            }
            _ if name.starts_with("rope_") => self.of(0),
            _ => self.of_output(),
        }
    }

    /// The place where vectors are multiplied with a matrix. A tied embedding is the output matrix too.
    pub fn of_products(&self, name: &str, tied_output: bool) -> Place {
        if tied_output && name == "token_embd.weight" { self.of_output() } else { self.of_tensor(name) }
    }

    /// The layers in a place.
    pub fn layers(&self, place: Place) -> Range<usize> {
        match place {
            Place::Host => 0..self.on_host(),
            Place::Device(device) => {
                let next = self.firsts[..self.devices].get(device + 1);
                self.firsts[device]..next.copied().unwrap_or(self.layers)
            }
        }
    }

    /// Number of layers on each device.
    pub fn counts(&self) -> Vec<usize> {
        (0..self.devices).map(|device| self.layers(Place::Device(device)).len()).collect()
    }

    /// Number of layers on the host.
    fn on_host(&self) -> usize {
        self.firsts[..self.devices].first().copied().unwrap_or(self.layers)
    }

    /// Number of layers on all devices.
    pub fn on_devices(&self) -> usize {
        self.layers - self.on_host()
    }

    /// Of how many of the first layers the experts are on the host.
    pub fn host_experts(&self) -> usize {
        self.host_experts
    }

    /// [`Placement::host_experts`] where that makes a difference for a model, else 0.
    pub fn host_experts_of(&self, spec: &ModelSpec) -> usize {
        if self.split_layers(spec) > 0 { self.host_experts } else { 0 }
    }

    /// How many layers are on devices with their experts on the host.
    pub fn split_layers(&self, spec: &ModelSpec) -> usize {
        (self.on_host()..self.host_experts).filter(|layer| spec.experts_of(*layer).is_some()).count()
    }
}

/// Whether a tensor of a layer belongs to the experts that are chosen for each token, or to what chooses them.
fn is_of_experts(name: &str) -> bool {
    let name = name.split('.').next().unwrap_or_default();
    let others = ["ffn_gate_inp", "exp_probs_b", "pre_ffw_norm_2", "post_ffw_norm_2"];
    name.ends_with("_exps") || others.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_layers_and_the_output_are_on_the_device() {
        let split = Placement::new(4, 1);
        assert_eq!((split.layers(Place::Host), split.layers(Place::Device(0))), (0..3, 3..4));
        assert_eq!(
            (split.of(2), split.of(3), split.of_output()),
            (Place::Host, Place::Device(0), Place::Device(0))
        );
        for (name, place) in [
            ("token_embd.weight", Place::Host),
            ("blk.2.attn_q.weight", Place::Host),
            ("blk.3.ffn_down.weight", Place::Device(0)),
            ("output.weight", Place::Device(0)),
            ("output_norm.weight", Place::Device(0)),
            ("rope_freqs.weight", Place::Host),
            ("rope_factors_long.weight", Place::Host),
            ("token_embd_norm.bias", Place::Host),
            ("position_embd.weight", Place::Host),
        ] {
            assert_eq!(split.of_tensor(name), place, "{name}");
        }
        let (none, all) = (Placement::new(4, 0), Placement::new(4, 9));
        assert_eq!((none.of_output(), none.on_devices()), (Place::Host, 0));
        assert_eq!(
            (all.of(0), all.on_devices(), all.of_tensor("rope_freqs.weight")),
            (Place::Device(0), 4, Place::Device(0))
        );
        assert_eq!(all.of_tensor("token_embd.weight"), Place::Host);
    }

    #[test]
    fn experts_of_the_first_layers_are_on_the_host() {
        let split = Placement::new(4, 3).with_host_experts(2);
        let places = |name: &str| [0, 1, 2].map(|layer| split.of_tensor(&format!("blk.{layer}.{name}")));
        for name in [
            "ffn_gate_exps.weight",
            "ffn_up_exps.weight",
            "ffn_down_exps.weight",
            "ffn_down_exps.bias",
            "ffn_gate_inp.weight",
            "ffn_gate_inp.bias",
            "exp_probs_b.bias",
            "ffn_gate_up_exps.weight",
            "ffn_down_exps.scale",
            "pre_ffw_norm_2.weight",
        ] {
            assert_eq!(places(name), [Place::Host, Place::Host, Place::Device(0)], "{name}");
        }
        for name in ["attn_q.weight", "ffn_down.weight", "ffn_up_shexp.weight", "ffn_gate_inp_shexp.weight"] {
            assert_eq!(places(name), [Place::Host, Place::Device(0), Place::Device(0)], "{name}");
        }
        let experts = |placement: Placement| (placement.on_devices(), placement.host_experts());
        assert_eq!(experts(Placement::new(4, 3)), (3, 1), "those of a layer on the host");
        assert_eq!(experts(Placement::new(4, 4).with_host_experts(9)), (4, 4));
        assert_eq!(experts(Placement::new(4, 0).with_host_experts(2)), (0, 4));
    }

    #[test]
    fn joint_layers_are_in_one_place() {
        let counts = |counts: &[usize]| Placement::with_joint_layers(10, 4, counts).counts();
        assert_eq!(counts(&[0, 0]), [0, 0]);
        assert_eq!(counts(&[1]), [4]);
        assert_eq!(counts(&[7, 0]), [7, 0]);
        assert_eq!([counts(&[3, 3]), counts(&[1, 1]), counts(&[2, 5])], [[2, 4], [0, 4], [2, 5]]);
        // Where the last device would have few, another one has them, with all behind.
        assert_eq!([counts(&[8, 1]), counts(&[3, 1]), counts(&[1, 3])], [[9, 0], [4, 0], [0, 4]]);
        assert_eq!([counts(&[2, 1, 1]), counts(&[1, 2, 1])], [[4, 0, 0], [0, 4, 0]]);
        assert_eq!([counts(&[usize::MAX, 1]), counts(&[usize::MAX, 3])], [[10, 0], [6, 4]]);
        assert_eq!(Placement::with_joint_layers(10, 0, &[3, 3]), Placement::over(10, &[3, 3]));
    }

    #[test]
    fn devices_have_layers_in_their_order() {
        let places = |counts: &[usize]| {
            let placement = Placement::over(6, counts);
            let of: Vec<Place> = (0..6).map(|layer| placement.of(layer)).collect();
            for place in placement.places() {
                let layers = placement.layers(place);
                assert!((0..6).all(|layer| layers.contains(&layer) == (of[layer] == place)), "{counts:?}");
            }
            assert_eq!((of[5], placement.of_tensor("blk.3.attn_q.weight")), (placement.of_output(), of[3]));
            of
        };
        use Place::{Device, Host};
        assert_eq!(places(&[]), [Host; 6]);
        let three = [Host, Device(0), Device(0), Device(1), Device(1), Device(1)];
        assert_eq!(places(&[2, 3]), three);
        assert_eq!(places(&[0, 6]), [Device(1); 6]);
        assert_eq!(places(&[6, 0]), [Device(0); 6]);
        assert_eq!(places(&[4, 1, 3]), [Device(0), Device(0), Device(1), Device(2), Device(2), Device(2)]);
        assert_eq!(Placement::over(6, &[4, 0, 1]).counts(), [4, 0, 1]);
        assert_eq!(places(&[1; 20])[..2], [Device(10), Device(11)], "not more than 16");
        let split = Placement::over(6, &[2, 3]).with_host_experts(4);
        assert_eq!([0, 1, 3, 4].map(|layer| split.of_experts(layer)), [Host, Host, Host, Device(1)]);
        let host_residual = split.with_host_residual();
        assert_eq!((split.of_residual(5), host_residual.of_residual(5)), (Device(1), Host));
    }
}

//! One value for each place.

use std::ops::{Index, IndexMut};

use super::placement::Place;

/// One value for each place of a [`Placement`](super::placement::Placement): for each device, in the order of the layers,
/// and for the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerPlace<T> {
    devices: Vec<T>,
    host: T,
}

impl<T> PerPlace<T> {
    /// What `of` gives for so many devices in their order, and then for the host.
    pub fn new(devices: usize, mut of: impl FnMut(Place) -> T) -> PerPlace<T> {
        PerPlace {
            devices: (0..devices).map(|device| of(Place::Device(device))).collect(),
            host: of(Place::Host),
        }
    }

    /// These values for devices, in their order, and for the host.
    pub fn from_parts(devices: Vec<T>, host: T) -> PerPlace<T> {
        PerPlace { devices, host }
    }

    /// The values with their places, the host last.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &T)> {
        let devices = self.devices.iter().enumerate().map(|(device, value)| (Place::Device(device), value));
        devices.chain([(Place::Host, &self.host)])
    }

    /// The values that may be changed, the host's last.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.devices.iter_mut().chain([&mut self.host])
    }

    /// What `of` makes of each value.
    pub fn map<U>(self, mut of: impl FnMut(T) -> U) -> PerPlace<U> {
        PerPlace { devices: self.devices.into_iter().map(&mut of).collect(), host: of(self.host) }
    }

    /// What [`PerPlace::from_parts`] takes.
    pub fn into_parts(self) -> (Vec<T>, T) {
        (self.devices, self.host)
    }
}

impl<T> Index<Place> for PerPlace<T> {
    type Output = T;

    fn index(&self, place: Place) -> &T {
        match place {
            Place::Device(device) => &self.devices[device],
            Place::Host => &self.host,
        }
    }
}

impl<T> IndexMut<Place> for PerPlace<T> {
    fn index_mut(&mut self, place: Place) -> &mut T {
        match place {
            Place::Device(device) => &mut self.devices[device],
            Place::Host => &mut self.host,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_a_value_each() {
        let mut values = PerPlace::new(2, |place| place == Place::Device(1));
        values[Place::Host] = true;
        let listed: Vec<(Place, bool)> = values.iter().map(|(place, value)| (place, *value)).collect();
        assert_eq!(listed, [(Place::Device(0), false), (Place::Device(1), true), (Place::Host, true)]);
        assert_eq!(values.into_parts(), (vec![false, true], true));
    }
}

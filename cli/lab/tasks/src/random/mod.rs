//! The random numbers of Python and numpy: the same seed gives the same numbers. RULER's prompts depend on them.

mod mersenne_twister;
mod numpy;
mod python;

pub(crate) use self::numpy::NumpyRandom;
pub(crate) use self::python::PythonRandom;

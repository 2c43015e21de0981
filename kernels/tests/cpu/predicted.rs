//! Predicted scores of new rows, of own kernels and of portable operations, against the formula in f64.

use kernels::Form;

use crate::common::predicted::{PredictCase, predicted};
use crate::common::{OWN, Place};

#[test]
fn predicted_scores_equal_the_formula() {
    for place in [OWN, Form::Portable].map(Place::cpu) {
        for case in PredictCase::all() {
            predicted(&place, case);
        }
    }
}

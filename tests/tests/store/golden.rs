//! The golden cases of the policies. `golden/policies/generate.py` makes them with a reference in NumPy.

use tests::golden;

#[test]
fn all_golden_cases_pass() {
    let cases = tests::data("golden/policies/cases");
    let counts = golden::run(&cases, &tests::devices()).expect("the cases are read");
    assert_eq!((counts.failed, counts.skipped), (0, 0));
    assert_eq!(counts.passed, 181);
}

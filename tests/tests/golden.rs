//! The golden cases of the policies, which `golden/policies/generate.py` made from a reference in numpy.

use tests::golden;

#[test]
fn all_cases_pass() {
    let counts =
        golden::run(&tests::data("golden/policies/cases"), tests::device()).expect("the cases are read");
    assert_eq!((counts.failed, counts.skipped), (0, 0));
    assert_eq!(counts.passed, 155);
}

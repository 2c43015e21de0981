//! Names that fonts of TeX have for mathematical signs, and that are not in Adobe's list of names.

/// The names and their characters.
const NAMES: [(&str, &str); 73] = [
    ("Ifractur", "ℑ"),
    ("Rfractur", "ℜ"),
    ("SS", "SS"),
    ("angbracketleft", "⟨"),
    ("angbracketright", "⟩"),
    ("arrowbothv", "↕"),
    ("arrowdblbothv", "⇕"),
    ("arrowhookleft", "↩"),
    ("arrowhookright", "↪"),
    ("arrowlefttophalf", "↼"),
    ("arrowleftbothalf", "↽"),
    ("arrowrighttophalf", "⇀"),
    ("arrowrightbothalf", "⇁"),
    ("arrownortheast", "↗"),
    ("arrownorthwest", "↖"),
    ("arrowsoutheast", "↘"),
    ("arrowsouthwest", "↙"),
    ("bardbl", "‖"),
    ("ceilingleft", "⌈"),
    ("ceilingright", "⌉"),
    // A circle around the letter before it, as in ©.
    ("circlecopyrt", "\u{20dd}"),
    ("circledivide", "⊘"),
    ("circledot", "⊙"),
    ("circleminus", "⊖"),
    ("contintegral", "∮"),
    ("coproduct", "∐"),
    ("diamondmath", "⋄"),
    ("epsilon1", "ϵ"),
    ("equivasymptotic", "≍"),
    ("flat", "♭"),
    ("floorleft", "⌊"),
    ("floorright", "⌋"),
    ("follows", "≻"),
    ("followsequal", "⪰"),
    ("greatermuch", "≫"),
    ("hatwide", "ˆ"),
    ("hatwider", "ˆ"),
    ("hatwidest", "ˆ"),
    ("intersectionsq", "⊓"),
    ("latticetop", "⊤"),
    ("lessmuch", "≪"),
    ("lscript", "ℓ"),
    ("mapsto", "↦"),
    ("natural", "♮"),
    // A stroke through the sign after it, as in ≠.
    ("negationslash", "\u{338}"),
    ("owner", "∋"),
    ("pi1", "ϖ"),
    ("precedes", "≺"),
    ("precedesequal", "⪯"),
    ("prime", "′"),
    ("rho1", "ϱ"),
    ("sharp", "♯"),
    ("similarequal", "≃"),
    ("square", "□"),
    ("squaresolid", "■"),
    ("star", "⋆"),
    ("subsetsqequal", "⊑"),
    ("supersetsqequal", "⊒"),
    ("theta1", "ϑ"),
    ("tie", "⁀"),
    ("tildewide", "˜"),
    ("tildewider", "˜"),
    ("tildewidest", "˜"),
    ("triangle", "△"),
    ("triangleinv", "▽"),
    ("triangleleft", "◁"),
    ("triangleright", "▷"),
    ("turnstileleft", "⊢"),
    ("turnstileright", "⊣"),
    ("unionmulti", "⊎"),
    ("unionsq", "⊔"),
    ("vector", "\u{20d7}"),
    ("visiblespace", "␣"),
];

/// Endings of the names of larger signs: `parenleftbig`, `summationdisplay`.
const SIZES: [&str; 10] = ["bigg", "Bigg", "big", "Big", "text", "display", "tp", "bt", "md", "ex"];

/// The characters of a name.
pub(super) fn characters(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, characters)| *characters)
}

/// The name of the same sign in its plain size, for a name that tells a size.
pub(super) fn without_size(name: &str) -> Option<&str> {
    const SIGNS: [&str; 14] = [
        "paren",
        "brac",
        "floor",
        "ceiling",
        "angbracket",
        "slash",
        "backslash",
        "radical",
        "summation",
        "product",
        "coproduct",
        "integral",
        "contintegral",
        "union",
    ];
    const MORE: [&str; 5] = ["intersection", "logical", "circle", "vextend", "arrow"];
    SIZES
        .iter()
        .find_map(|size| name.strip_suffix(size))
        .filter(|plain| SIGNS.iter().chain(&MORE).any(|sign| plain.starts_with(sign)))
}

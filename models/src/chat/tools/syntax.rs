//! How families of models write calls of functions.

/// How a family writes calls.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Syntax {
    /// What a call begins with, anywhere in an answer.
    pub(super) begins: &'static [&'static str],
    /// What a call begins with only where the answer begins, or behind another call.
    pub(super) first: &'static [&'static str],
    /// What a group of calls begins with.
    pub(super) groups: &'static [&'static str],
    /// What may stand behind a call.
    pub(super) ends: &'static [&'static str],
    pub(super) body: Body,
}

/// What stands behind the beginning of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// An object with the function's name and arguments, or a list of such objects.
    Json,
    /// The function's name, one of these separators, and an object of arguments. Or as [`Body::Json`].
    Named(&'static [&'static str]),
    /// The same with the name somewhere in the header of a message of gpt-oss.
    Harmony,
    /// The function's name up to `>`, and elements with a name and a text.
    Elements { parameter: &'static str, parameter_end: &'static str, end: &'static str },
    /// The function's name, and pairs of `<arg_key>` and `<arg_value>`.
    Pairs,
    /// The function's name, and arguments in a notation of Gemma 4's own.
    Gemma,
}

/// The body of a call that begins with this brace begins with it, too.
pub(super) const OBJECT: &str = "{";
/// Around a block of code.
const FENCE: &str = "```json";
pub(super) const FENCE_END: &str = "```";
/// Around the definitions of functions.
const TOOLS: &str = "<tools>";

const NONE: Syntax = Syntax { begins: &[], first: &[], groups: &[], ends: &[], body: Body::Json };

const FUNCTION: Syntax = Syntax {
    begins: &["<function="],
    body: Body::Elements { parameter: "<parameter=", parameter_end: "</parameter>", end: "</function>" },
    ..NONE
};

/// All that are known. The first that reads what a template writes is the template's.
pub(super) const ALL: &[Syntax] = &[
    // Llama 3
    Syntax { begins: &["<|python_tag|>"], first: &[OBJECT], ends: &[";"], ..NONE },
    // Qwen 2.5 and 3, Hermes, Granite 4. Small models forget the mark, and Qwen 2.5 Coder writes others in its place.
    Syntax { begins: &["<tool_call>"], first: &[OBJECT, FENCE, TOOLS], ends: &["</tool_call>"], ..NONE },
    // Mistral
    Syntax { begins: &["[TOOL_CALLS]"], body: Body::Named(&["[ARGS]"]), ..NONE },
    // Qwen 3 Coder and 3.5, Nemotron 3, StepFun
    Syntax { groups: &["<tool_call>"], ends: &["</tool_call>"], ..FUNCTION },
    // Seed-OSS
    Syntax { groups: &["<seed:tool_call>"], ends: &["</seed:tool_call>"], ..FUNCTION },
    // MiniMax M2
    Syntax {
        begins: &["<invoke name="],
        groups: &["<minimax:tool_call>"],
        ends: &["</minimax:tool_call>"],
        body: Body::Elements {
            parameter: "<parameter name=",
            parameter_end: "</parameter>",
            end: "</invoke>",
        },
        ..NONE
    },
    // DeepSeek V3.2 and V4
    Syntax {
        begins: &["<｜DSML｜invoke name="],
        groups: &["<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"],
        ends: &["</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"],
        body: Body::Elements {
            parameter: "<｜DSML｜parameter name=",
            parameter_end: "</｜DSML｜parameter>",
            end: "</｜DSML｜invoke>",
        },
        ..NONE
    },
    // GLM 4.5 and later
    Syntax { begins: &["<tool_call>"], body: Body::Pairs, ..NONE },
    // gpt-oss
    Syntax {
        begins: &["<|end|><|start|>assistant", "<|start|>assistant", "<|channel|>"],
        first: &[" to=functions.", "to=functions."],
        ends: &["<|call|>"],
        body: Body::Harmony,
        ..NONE
    },
    // DeepSeek V3 and R1
    Syntax {
        begins: &["<｜tool▁call▁begin｜>function<｜tool▁sep｜>"],
        groups: &["<｜tool▁calls▁begin｜>"],
        ends: &["```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"],
        body: Body::Named(&["\n```json\n"]),
        ..NONE
    },
    // DeepSeek V3.1
    Syntax {
        begins: &["<｜tool▁call▁begin｜>"],
        groups: &["<｜tool▁calls▁begin｜>"],
        ends: &["<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"],
        body: Body::Named(&["<｜tool▁sep｜>"]),
        ..NONE
    },
    // Kimi K2
    Syntax {
        begins: &["<|tool_call_begin|>"],
        groups: &["<|tool_calls_section_begin|>"],
        ends: &["<|tool_call_end|>", "<|tool_calls_section_end|>"],
        body: Body::Named(&["<|tool_call_argument_begin|>"]),
        ..NONE
    },
    // Solar Open
    Syntax {
        begins: &["<|tool_call:begin|>"],
        groups: &["<|tool_calls|>"],
        ends: &["<|tool_call:end|>"],
        body: Body::Named(&["<|tool_call:args|>"]),
        ..NONE
    },
    // Gemma 4
    Syntax { begins: &["<|tool_call>call:"], ends: &["<tool_call|>"], body: Body::Gemma, ..NONE },
    // Command R7B and A
    Syntax { begins: &["<|START_ACTION|>"], ends: &["<|END_ACTION|>"], ..NONE },
    // Nemotron Nano 2
    Syntax { begins: &["<TOOLCALL>"], ends: &["</TOOLCALL>"], ..NONE },
    // Phi 4 mini
    Syntax { begins: &["<|tool_call|>"], ends: &["<|/tool_call|>"], ..NONE },
    // Apriel, MiniMax M1
    Syntax { begins: &["<tool_calls>"], first: &[OBJECT], ends: &["</tool_calls>"], ..NONE },
];

/// Around texts of Gemma 4.
pub(super) const QUOTE: &str = "<|\"|>";
/// Before the number of a call of Mistral.
pub(super) const CALL_ID: &str = "[CALL_ID]";
/// Before the function's name of Solar Open, behind the number of the call.
pub(super) const SOLAR_NAME: &str = "<|tool_call:name|>";

/// What stands once behind the calls that begin with this mark, if the mark has an end of its own.
pub(super) fn end_of(begin: &str) -> Option<&'static str> {
    match begin {
        FENCE => Some(FENCE_END),
        TOOLS => Some("</tools>"),
        _ => None,
    }
}

/// Whether an answer that is no call may begin with this mark.
pub(super) fn may_be_text(begin: &str) -> bool {
    matches!(begin, OBJECT | FENCE)
}

impl Syntax {
    /// All marks. Some of them are control tokens of the family's vocabulary.
    pub(super) fn marks(&self) -> impl Iterator<Item = &'static str> {
        let of_body: &[&str] = match self.body {
            Body::Json => &[],
            Body::Named(separators) => separators,
            Body::Harmony => &["<|message|>", "<|constrain|>"],
            // These are no control tokens in any vocabulary but DeepSeek's, where all begin in the same way.
            Body::Elements { .. } => &["｜DSML｜"],
            Body::Pairs => &["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"],
            Body::Gemma => &[QUOTE],
        };
        self.outer().chain([CALL_ID, SOLAR_NAME]).chain(of_body.iter().copied())
    }

    fn outer(&self) -> impl Iterator<Item = &'static str> {
        [self.begins, self.first, self.groups, self.ends].into_iter().flatten().copied()
    }
}

//! What code looks like in common languages. A small table instead of a crate: those have grammars for hundreds of
//! languages, add a tenth to the program's size, and colour whole lines only.

/// A language.
pub struct Language {
    /// As code blocks name it, in small letters.
    names: &'static [&'static str],
    /// The longer beginnings first.
    pub comments: &'static [Comment],
    /// What strings begin and end with, the longer ones first.
    pub strings: &'static [&'static str],
    /// Separated by spaces.
    keywords: &'static str,
    /// Whether keywords may be in capitals.
    any_case: bool,
    /// Whether lines are marked as added and removed.
    pub is_diff: bool,
}

/// A comment. One without an end ends with its line.
pub struct Comment {
    pub start: &'static str,
    pub end: Option<&'static str>,
}

const fn to_line_end(start: &'static str) -> Comment {
    Comment { start, end: None }
}

const fn block(start: &'static str, end: &'static str) -> Comment {
    Comment { start, end: Some(end) }
}

const SLASHES: &[Comment] = &[to_line_end("//"), block("/*", "*/")];
const HASH: &[Comment] = &[to_line_end("#")];

/// Nothing has a colour.
const PLAIN: Language =
    Language { names: &[], comments: &[], strings: &[], keywords: "", any_case: false, is_diff: false };
/// Like C.
const BRACES: Language = Language { comments: SLASHES, strings: &["\"", "'"], ..PLAIN };

const LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        strings: &["\""],
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match \
                   mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
        ..BRACES
    },
    Language {
        names: &["c", "h", "cpp", "c++", "hpp", "cc", "cuda", "objc"],
        keywords: "alignas auto bool break case catch char class const constexpr continue default delete do double else \
                   enum explicit extern false float for friend goto if inline int long namespace new noexcept nullptr \
                   operator override private protected public return short signed sizeof static struct switch template \
                   this throw true try typedef typename union unsigned using virtual void volatile while",
        ..BRACES
    },
    Language {
        names: &["java", "kotlin", "kt", "scala", "csharp", "c#", "cs", "swift", "dart", "groovy"],
        strings: &["\"\"\"", "\"", "'"],
        keywords: "abstract async await base bool boolean break byte case catch char class companion const continue data \
                   def default do double else enum extends extension false final finally float for foreach fun func \
                   guard if implements import in init inner int interface internal is lateinit let long namespace new \
                   nil null object open operator out override package private protected protocol public return sealed \
                   self short static string struct super switch this throw throws trait true try using val var void \
                   when where while yield",
        ..BRACES
    },
    Language {
        names: &["javascript", "js", "jsx", "mjs", "typescript", "ts", "tsx"],
        strings: &["\"", "'", "`"],
        keywords: "abstract any as async await boolean break case catch class const continue debugger declare default \
                   delete do else enum export extends false finally for from function get if implements import in \
                   instanceof interface keyof let namespace never new null number of private protected public readonly \
                   return set static string super switch this throw true try type typeof undefined unknown var void \
                   while with yield",
        ..BRACES
    },
    Language {
        names: &["go", "golang"],
        strings: &["\"", "'", "`"],
        keywords: "any bool break byte case chan const continue default defer else error fallthrough false float64 for \
                   func go goto if import int int64 interface map nil package range return rune select string struct \
                   switch true type uint var",
        ..BRACES
    },
    Language {
        names: &["php", "zig", "glsl", "wgsl", "proto", "protobuf"],
        keywords: "abstract as break case catch class comptime const continue defer do echo else elseif enum extends \
                   false final fn for foreach function global if implements import in interface message namespace new \
                   null optional private protected pub public repeated require return static struct switch throw true \
                   try uniform use var void while",
        ..BRACES
    },
    Language { names: &["css", "scss", "less"], comments: &[block("/*", "*/")], ..BRACES },
    Language {
        names: &["python", "py", "python3"],
        comments: HASH,
        strings: &["\"\"\"", "'''", "\"", "'"],
        keywords: "and as assert async await break case class continue def del elif else except False finally for from \
                   global if import in is lambda match None nonlocal not or pass raise return self True try while with \
                   yield",
        ..PLAIN
    },
    Language {
        names: &["ruby", "rb", "elixir", "ex", "julia", "jl", "r", "perl", "pl"],
        comments: HASH,
        strings: &["\"", "'"],
        keywords: "and begin break case class def defmodule do else elseif elsif end ensure extend false for foreach \
                   function if in include let local module my mutable my next nil not or our redo rescue retry return \
                   self struct sub super then true undef unless until use using when while yield FALSE NULL TRUE",
        ..PLAIN
    },
    Language {
        names: &[
            "bash",
            "sh",
            "shell",
            "zsh",
            "fish",
            "console",
            "shellsession",
            "dockerfile",
            "docker",
            "make",
            "makefile",
        ],
        comments: HASH,
        strings: &["\"", "'"],
        keywords: "case do done elif else esac exit export fi for function if in local return select set source then \
                   until while ADD CMD COPY ENTRYPOINT ENV FROM RUN WORKDIR",
        ..PLAIN
    },
    Language {
        names: &["powershell", "ps1", "pwsh"],
        comments: &[block("<#", "#>"), to_line_end("#")],
        strings: &["\"", "'"],
        keywords: "begin break catch continue do else elseif end exit finally for foreach function if in param process \
                   return switch throw try until while",
        any_case: true,
        ..PLAIN
    },
    Language {
        names: &["sql", "postgresql", "postgres", "mysql", "sqlite"],
        comments: &[to_line_end("--"), block("/*", "*/")],
        strings: &["'", "\""],
        keywords: "add all alter and as asc begin between by case cast column commit constraint create cross default \
                   delete desc distinct drop else end exists foreign from full group having if in index inner insert \
                   into is join key left like limit not null offset on or order outer over partition primary \
                   references returning right rollback select set table then union unique update using values view \
                   when where with",
        any_case: true,
        ..PLAIN
    },
    Language {
        names: &["lua"],
        comments: &[block("--[[", "]]"), to_line_end("--")],
        strings: &["\"", "'"],
        keywords: "and break do else elseif end false for function goto if in local nil not or repeat return then true \
                   until while",
        ..PLAIN
    },
    Language {
        names: &["haskell", "hs", "elm"],
        comments: &[to_line_end("--"), block("{-", "-}")],
        strings: &["\""],
        keywords: "case class data deriving do else if import in infix instance let module newtype of then type where",
        ..PLAIN
    },
    Language {
        names: &["json", "json5", "jsonc"],
        comments: SLASHES,
        strings: &["\""],
        keywords: "true false null",
        ..PLAIN
    },
    Language {
        names: &["yaml", "yml", "toml", "ini", "conf", "properties"],
        comments: HASH,
        strings: &["\"\"\"", "\"", "'"],
        keywords: "true false null",
        ..PLAIN
    },
    Language {
        names: &["html", "xml", "svg", "vue"],
        comments: &[block("<!--", "-->")],
        strings: &["\""],
        ..PLAIN
    },
    Language { names: &["diff", "patch"], is_diff: true, ..PLAIN },
];

impl Language {
    /// The language that a code block names.
    pub fn find(name: &str) -> Option<&'static Language> {
        let name = name.to_lowercase();
        LANGUAGES.iter().find(|language| language.names.contains(&name.as_str()))
    }

    /// Whether a word is a keyword.
    pub fn has_keyword(&self, word: &str) -> bool {
        let is_same = |keyword: &str| match self.any_case {
            true => keyword.eq_ignore_ascii_case(word),
            false => keyword == word,
        };
        self.keywords.split(' ').any(is_same)
    }
}

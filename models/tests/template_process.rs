//! What is left of the processes that run chat templates. A test program of its own, because it counts the
//! children and the open files of the whole process.
#![cfg(target_os = "linux")]

use std::fs;

use models::chat::{ChatError, ChatTemplate, Message};
use models::embedded;
use models::gguf::GgufFile;
use models::tokenizer::Tokenizer;

/// Children of this process, zombies included.
fn children() -> Vec<u32> {
    let tasks = fs::read_dir("/proc/self/task").expect("the threads of this process");
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let lists: Vec<String> = tasks.flatten().map(of_task).collect();
    lists.iter().flat_map(|list| list.split_whitespace()).map(|pid| pid.parse().expect("a number")).collect()
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").expect("the open files of this process").count()
}

#[test]
fn processes_that_were_ended_leave_nothing_behind() {
    let file = GgufFile::from_bytes(embedded::needle()).expect("the embedded file");
    let tokenizer = Tokenizer::from_gguf(&file).expect("the embedded vocabulary");
    let source =
        "{% if messages[0].content %}good{% else %}{{ [1]|batch(99999999999, 'x')|list }}{% endif %}";
    let template = ChatTemplate::new(Some(source), &tokenizer).expect("compiles");
    let render = |content: &str| template.render(&[Message::user(content)], true);

    assert_eq!(render("x"), Ok("good".into()));
    assert_eq!(children().len(), 1, "one process renders");
    let files = open_files();
    for _ in 0..30 {
        assert!(matches!(render(""), Err(ChatError::OutOfMemory { .. })));
        assert_eq!(children(), Vec::<u32>::new());
        assert_eq!(render("x"), Ok("good".into()));
    }
    assert_eq!((children().len(), open_files()), (1, files));

    // A process that something else has ended is replaced.
    let pid = i32::try_from(children()[0]).ok().and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.expect("a process"), rustix::process::Signal::KILL).expect("killed");
    let status = || fs::read_to_string(format!("/proc/{}/status", children()[0])).unwrap_or_default();
    while !status().contains("zombie") {
        std::thread::yield_now();
    }
    assert_eq!(render("x"), Ok("good".into()));
    drop(template);
    // The socket, and the pipe with whose end the process ends.
    assert_eq!((children(), open_files()), (Vec::new(), files - 2));
}

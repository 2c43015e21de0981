//! `/v1/documents`, longhand's own: documents are sent once, are read before anybody asks, and are named in requests.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use documents::{Limits, Source};
use serde_json::{Value, json};

use super::fields::Fields;
use super::submit::{self, in_background};
use super::whole::now;
use super::{Answered, Name};
use crate::http::error::ApiError;
use crate::http::stream::Events;
use crate::http::{Shared, content_type, is_json, json_response, text_response};
use crate::service::{Documents, Event, ReadingState, Service, Stored, Text, Wanted};

/// The documents that a request is about: those that it names, without names the server's, and with an empty list none.
pub(super) async fn of_request(
    service: &Arc<Service>,
    fields: &mut Fields,
) -> Result<Arc<Documents>, ApiError> {
    let Some(ids) = fields.take::<Vec<String>>("documents")? else { return Ok(service.documents().clone()) };
    if ids.is_empty() {
        return Ok(Arc::default());
    }
    let wrong = |message: String| ApiError::field("documents", format!("documents: {message}"));
    let (mut found, mut tokens): (Vec<Arc<Stored>>, _) = (Vec::new(), 0);
    for id in ids {
        let document = service.library().find(&id);
        let document = document.ok_or_else(|| ApiError {
            code: Some("document_not_found"),
            ..wrong(format!("there is no {id:?} here; send it to /v1/documents first"))
        })?;
        if found.iter().any(|other| Arc::ptr_eq(other, &document)) {
            return Err(wrong(format!("{id:?} is there twice")));
        }
        tokens += document.tokens;
        found.push(document);
        submit::check_length(service, tokens)?;
    }
    in_background(move || Ok(Documents::joined(&found))).await
}

/// Whether a request wants to know where in its documents the answers come from.
///
/// # Errors
/// Where that is not recorded.
pub(super) fn sources(service: &Service, fields: &mut Fields) -> Result<bool, ApiError> {
    let are_wanted = fields.take("sources")?.unwrap_or(false);
    match are_wanted && !service.records_sources() {
        true => Err(ApiError::field(
            "sources",
            "sources: this server does not record where answers come from; start it with --sources, or leave the field out",
        )),
        false => Ok(are_wanted),
    }
}

/// Takes a document: JSON with a name and a text, or the bytes of a file with its name behind `?name=`.
pub(super) async fn add(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let service = shared.service()?;
    let reader = service.clone();
    let document = match name_in(request.uri())? {
        None if is_json(request.headers()) => {
            let mut fields = Fields::new(shared.object(request).await?);
            let (name, text): (String, String) = (fields.need("name")?, fields.need("text")?);
            fields.end(&[])?;
            in_background(move || read(&reader, &name, text.as_bytes())).await?
        }
        None => {
            let message = "the document has no name: send it to /v1/documents?name=report.pdf";
            return Err(ApiError::field("name", message));
        }
        Some(_) if content_type(request.headers()).to_ascii_lowercase().starts_with("multipart/") => {
            let message = "send the bytes of the file alone (with curl: --data-binary @FILE), not a form";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        Some(name) => {
            let bytes = shared.file(request).await?;
            in_background(move || read(&reader, &name, &bytes)).await?
        }
    };
    let (stored, is_new) = service.library().add(document).ok_or_else(|| {
        ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "there is no room for more documents: delete some")
    })?;
    if stored.claim()
        && let Err(error) = read_ahead(service, &stored).await
    {
        stored.set_state(ReadingState::Waiting);
        if is_new {
            service.library().remove(stored.documents.id());
        }
        return Err(error);
    }
    let mut response = json_response(&describe(&stored));
    *response.status_mut() = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(response)
}

/// The text of a document, and its tokens.
fn read(service: &Service, name: &str, bytes: &[u8]) -> Result<Arc<Stored>, ApiError> {
    if name.trim().is_empty() {
        return Err(ApiError::field("name", "the name of the document is empty"));
    }
    if name.chars().any(char::is_control) {
        return Err(ApiError::field("name", "the name of the document has control characters"));
    }
    let document = documents::read_bytes(name, bytes, &Limits::default());
    let document =
        document.map_err(|error| ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
    let notes = document.notes.iter().map(ToString::to_string).collect();
    let name = document.name.clone();
    let (text, outline) = Source::from(document).into_text();
    let documents = Arc::new(Documents::new(vec![name], &text, outline));
    if let Some(known) = service.library().find(documents.id()) {
        return Ok(known);
    }
    let tokens = service.preamble(&documents, None)?.min_tokens();
    submit::check_length(service, tokens)?;
    Ok(Stored::new(documents, notes, tokens, now()))
}

/// Has a document read, if its chat template writes it before the question.
async fn read_ahead(service: &Arc<Service>, stored: &Arc<Stored>) -> Result<(), ApiError> {
    let (preambles, documents) = (service.clone(), stored.documents.clone());
    let tokens = in_background(move || {
        let preamble = preambles.preamble(&documents, None)?;
        Ok(preamble.first_tokens().unwrap_or_default().to_vec())
    });
    let tokens = tokens.await?;
    if tokens.is_empty() {
        // Its chat template writes the question first.
        stored.set_state(ReadingState::Waiting);
        return Ok(());
    }
    let names = stored.documents.names().to_vec();
    // It is only read.
    let events = submit::submit(service, Text::of_documents(tokens, names), Wanted::default())?;
    stored.stopped_by(events.stop());
    tokio::spawn(follow(events, stored.clone()));
    Ok(())
}

/// Notes how far a document is read.
async fn follow(mut events: Events, stored: Arc<Stored>) {
    while let Some(event) = events.next().await {
        match event {
            Event::Begun { cached } => stored.set_state(ReadingState::Reading(cached)),
            Event::Reading { processed, .. } => stored.set_state(ReadingState::Reading(processed)),
            Event::Scored(_) | Event::Text { .. } | Event::Call { .. } | Event::Answered { .. } => {}
            Event::Done => stored.set_state(ReadingState::Read),
            Event::Failed(error) => stored.fail(&error),
        }
    }
}

pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Answered {
    let all = shared.service()?.library().all();
    Ok(json_response(
        &json!({"object": "list", "data": all.iter().map(|one| describe(one)).collect::<Value>()}),
    ))
}

pub(super) async fn show(State(shared): State<Arc<Shared>>, id: Name) -> Answered {
    Ok(json_response(&describe(&*find(&shared, &id?)?)))
}

/// The text that the model reads of a document.
pub(super) async fn text(State(shared): State<Arc<Shared>>, id: Name) -> Answered {
    let text = find(&shared, &id?)?.documents.text().to_owned();
    Ok(text_response("text/plain; charset=utf-8", text))
}

pub(super) async fn remove(State(shared): State<Arc<Shared>>, id: Name) -> Answered {
    let id = id?.0;
    match shared.service()?.library().remove(&id) {
        true => Ok(json_response(&json!({"id": id, "object": "document", "deleted": true}))),
        false => Err(no_document(&id)),
    }
}

fn find(shared: &Shared, id: &str) -> Result<Arc<Stored>, ApiError> {
    shared.service()?.library().find(id).ok_or_else(|| no_document(id))
}

fn no_document(id: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, format!("there is no document {id:?} here"))
}

fn describe(stored: &Stored) -> Value {
    let Stored { documents, notes, tokens, created, .. } = stored;
    let (status, read, error) = match stored.state() {
        ReadingState::Waiting | ReadingState::Queued => ("waiting", 0, None),
        ReadingState::Reading(read) => ("reading", read, None),
        ReadingState::Read => ("read", *tokens, None),
        ReadingState::Failed(error) => ("failed", 0, Some(error)),
    };
    json!({
        "id": documents.id(),
        "object": "document",
        "name": documents.names().join(", "),
        "created_at": created,
        "bytes": documents.text().len(),
        "tokens": tokens,
        "status": status,
        "tokens_read": read,
        "error": error,
        "notes": notes,
    })
}

/// The `name` of an address, without escapes, if it has one.
///
/// # Errors
/// Where its escapes are damaged, or it is not UTF-8.
fn name_in(uri: &Uri) -> Result<Option<String>, ApiError> {
    let mut fields = uri.query().unwrap_or_default().split('&');
    let Some(value) = fields.find_map(|field| field.strip_prefix("name=")) else { return Ok(None) };
    let damaged = "the name of the document is damaged: percent-encode its UTF-8 bytes";
    without_escapes(value).map(Some).ok_or_else(|| ApiError::field("name", damaged))
}

/// A part of an address, without escapes.
fn without_escapes(value: &str) -> Option<String> {
    let (mut bytes, mut name) = (value.bytes(), Vec::new());
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(name).ok()
}

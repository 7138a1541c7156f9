//! What is wrong with a request, in the shape that OpenAI's clients read.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// A status and what goes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    pub status: StatusCode,
    pub message: String,
    /// Which field is wrong.
    pub param: Option<String>,
    pub code: Option<&'static str>,
}

impl ApiError {
    pub fn new(status: StatusCode, message: impl Into<String>) -> ApiError {
        ApiError { status, message: message.into(), param: None, code: None }
    }
    /// A field that is wrong.
    pub fn field(param: &str, message: impl Into<String>) -> ApiError {
        let message = message.into();
        ApiError {
            param: Some(param.into()),
            ..ApiError::new(StatusCode::BAD_REQUEST, format!("{param}: {message}"))
        }
    }
    pub fn coded(self, code: &'static str) -> ApiError {
        ApiError { code: Some(code), ..self }
    }
    /// The object that clients read.
    pub fn json(&self) -> serde_json::Value {
        let kind = match self.status.as_u16() {
            401 => "authentication_error",
            429 => "rate_limit_error",
            s if s >= 500 => "server_error",
            _ => "invalid_request_error",
        };
        json!({"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, [(CONTENT_TYPE, "application/json")], self.json().to_string()).into_response()
    }
}

//! Language models: read from GGUF files and Hugging Face folders, run for many sequences at once (decision 021).

#![forbid(unsafe_code)]

//! Validation of messages against the schema of DAP, from debugpy.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use parking_lot::Mutex;
use serde_json::{Value, json};

pub struct Schema {
    definitions: Value,
    /// Validators by the name of the definition, since building one takes long.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Schema {
    /// The schema of the tools in `PILCROW_TOOLS`; `None` if they are not set up.
    pub fn of_environment() -> Option<&'static Self> {
        static ONCE: OnceLock<Option<Schema>> = OnceLock::new();
        let read = || Self::of(Path::new(&std::env::var_os("PILCROW_TOOLS")?));
        ONCE.get_or_init(read).as_ref()
    }

    /// The schema of the tools in a directory. Blocks on the file system.
    pub fn of(tools: &Path) -> Option<Self> {
        let mut items = std::fs::read_dir(tools.join("items")).ok()?.flatten();
        let debugpy = items.find(|it| it.file_name().to_string_lossy().starts_with("debugpy-"))?;
        let python = std::fs::read_dir(debugpy.path().join("lib")).ok()?.flatten().next()?;
        let below = "site-packages/debugpy/_vendored/pydevd/_pydevd_bundle/_debug_adapter/debugProtocol.json";
        let definitions = serde_json::from_slice(&std::fs::read(python.path().join(below)).ok()?).ok()?;
        Some(Self { definitions, validators: Mutex::default() })
    }

    /// Validates a message.
    ///
    /// # Errors
    /// The violation, with the message.
    pub fn check(&self, message: &Value) -> Result<(), String> {
        let (name, kind) = match message["type"].as_str() {
            Some("event") => (&message["event"], "Event"),
            Some("response") => (&message["command"], "Response"),
            _ => (&message["command"], "Request"),
        };
        let name = name.as_str().filter(|name| name.is_ascii() && !name.is_empty());
        let name = name.ok_or_else(|| format!("it has no name: {message}"))?;
        let own = format!("{}{}{kind}", name[..1].to_uppercase(), &name[1..]);
        let definition = match () {
            () if message["success"] == false => "ErrorResponse".to_owned(),
            () if self.definitions["definitions"][&own].is_object() => own,
            () => kind.to_owned(),
        };
        let validator = self.validator(&definition)?;
        let errors: Vec<String> = validator.iter_errors(message).map(|error| error.to_string()).collect();
        if errors.is_empty() { Ok(()) } else { Err(format!("{definition}: {errors:?}\n{message}")) }
    }

    fn validator(&self, definition: &str) -> Result<Arc<Validator>, String> {
        // Entries are inserted whole, so a panic elsewhere has no effect on them.
        let mut validators = self.validators.lock();
        if let Some(validator) = validators.get(definition) {
            return Ok(Arc::clone(validator));
        }
        let one = json!({
            "$schema": self.definitions["$schema"],
            "definitions": self.definitions["definitions"],
            "$ref": format!("#/definitions/{definition}"),
        });
        let validator = Arc::new(jsonschema::validator_for(&one).map_err(|error| error.to_string())?);
        validators.insert(definition.to_owned(), Arc::clone(&validator));
        Ok(validator)
    }
}

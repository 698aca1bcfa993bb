//! A model behind HTTP: a protocol, an endpoint and the transport.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::endpoint::Endpoint;
use crate::http::Transport;
use crate::message::{AssistantMessage, ErrorKind};
use crate::model::{Model, ModelInfo, Request};
use crate::price::priced;
use crate::protocol::Protocol;
use crate::protocol::tools::restore_names;
use crate::stream::MessageStream;

/// A model behind HTTP. The first request creates the client.
pub struct RemoteModel {
    protocol: Arc<dyn Protocol>,
    endpoint: Endpoint,
    info: ModelInfo,
    transport: Arc<Transport>,
}

impl RemoteModel {
    /// Creates the model at this endpoint, without a connection.
    pub fn new(protocol: Arc<dyn Protocol>, endpoint: Endpoint) -> RemoteModel {
        let info = ModelInfo {
            provider: endpoint.provider.clone(),
            id: endpoint.model.clone(),
            api: protocol.name().to_owned(),
            images: endpoint.images,
            context_window: endpoint.context_window,
        };
        let timeouts = endpoint.timeouts();
        let transport = Transport::new(&endpoint.provider, timeouts, endpoint.retry, endpoint.texts.clone());
        let transport = Arc::new(transport.with_keys(endpoint.keys.clone()));
        RemoteModel { protocol, endpoint, info, transport }
    }
}

impl Model for RemoteModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Request, cancel: CancellationToken) -> MessageStream {
        let mut empty =
            AssistantMessage::empty(self.protocol.name(), &self.endpoint.provider, &self.endpoint.model);
        let encoded = self.protocol.encode(&self.endpoint, &request);
        if let Ok(http) = &encoded
            && let Some((level, effort)) = &http.thinking
        {
            empty.thinking_level = Some(*level);
            empty.provider_thinking_level = Some(effort.clone());
        }
        let decoder = self.protocol.decoder(&self.endpoint, empty.clone());
        let decoder = match &encoded {
            Ok(http) => restore_names(decoder, &http.names),
            Err(_) => decoder,
        };
        let decoder = priced(decoder, self.endpoint.price.as_ref());
        let transport = self.transport.clone();
        if request.session_id.is_empty()
            && let Some(keys) = &self.endpoint.keys
        {
            keys.advance();
        }
        let own_key = request.api_key.is_some() && self.protocol.sends_own_key();
        MessageStream::spawn(empty, cancel, move |writer| async move {
            match encoded {
                Ok(http) => {
                    transport.run(http, decoder, &request, own_key, writer).await;
                }
                Err(error) => writer.fail(ErrorKind::Provider, error.to_string()),
            }
        })
    }
}

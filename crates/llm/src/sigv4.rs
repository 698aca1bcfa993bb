//! AWS Signature Version 4, by `aws-sigv4`.
//!
//! Each attempt is signed again, since a signature is valid for minutes. Callers pass in the
//! credentials; nothing here reads the machine or a file.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;

use crate::secret::ApiKey;

/// Credentials that sign requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsCredentials {
    /// Key id; not secret.
    pub access_key_id: String,
    /// Key that signs requests and is not sent.
    pub secret_access_key: ApiKey,
    /// Session token of temporary credentials.
    pub session_token: Option<ApiKey>,
    /// The region; `None` for the one in the address or in the model's ARN.
    pub region: Option<String>,
}

/// Parameters of a request's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signing {
    pub keys: AwsCredentials,
    pub region: String,
    /// The service, such as `bedrock`.
    pub service: &'static str,
}

impl AwsCredentials {
    /// The secret parts.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = ApiKey> {
        [Some(self.secret_access_key.clone()), self.session_token.clone()].into_iter().flatten()
    }
}

impl Signing {
    /// The headers that sign a POST of `body` to `url` at `now`.
    ///
    /// The signature covers host, content type and body.
    pub(crate) fn headers(
        &self,
        url: &str,
        body: &[u8],
        now: SystemTime,
    ) -> Result<Vec<(String, String)>, String> {
        let keys = &self.keys;
        let token = keys.session_token.as_ref().map(|token| token.reveal().to_owned());
        let identity =
            Credentials::new(&*keys.access_key_id, keys.secret_access_key.reveal(), token, None, "pilcrow")
                .into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| error.to_string())?
            .into();
        let headers = [("content-type", "application/json")].into_iter();
        let request = SignableRequest::new("POST", url, headers, SignableBody::Bytes(body))
            .map_err(|error| error.to_string())?;
        let (signed, _) = sign(request, &params).map_err(|error| error.to_string())?.into_parts();
        Ok(signed.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Compares with a signature computed independently from Amazon's documentation.
    #[test]
    fn a_request_is_signed_as_amazon_documents_it() {
        let signing = Signing {
            keys: AwsCredentials {
                access_key_id: "AKIDEXAMPLE".to_owned(),
                secret_access_key: ApiKey::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY").unwrap(),
                session_token: ApiKey::new("a/session+token="),
                region: None,
            },
            region: "us-east-1".to_owned(),
            service: "bedrock",
        };
        let url =
            "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-x%3A0/converse-stream";
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160);
        let headers = signing.headers(url, b"{\"messages\":[]}", now).unwrap();
        let header = |name: &str| {
            let found = headers.iter().find(|(it, _)| it.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        assert_eq!(header("x-amz-date"), "20150830T123600Z");
        assert_eq!(header("x-amz-security-token"), "a/session+token=");
        assert_eq!(header("authorization"), SIGNED);
        assert!(!format!("{signing:?}").contains("wJalr"), "it does not print");
    }

    const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/bedrock/aws4_request, \
        SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, \
        Signature=1f52a46306948ae47a463bb5c8ad4effbc2a9d0f908c6c95dcfa30f8e32df9dd";
}

//! A call as it comes over HTTP: its address, and its parameters from wherever they were put.
//!
//! Real clients use three transports: all in a form body, all in the query of an empty POST, and
//! the signature in the query with a multipart body. What must hold: parameters of query and body
//! are merged, nothing is dropped that takes part in the signature, files do not take part, and
//! values stay the text that was sent.

use axum::body::Body;
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::{HeaderMap, header};

const SIGNATURE: &str = "_aop_signature";
const MAX_BODY: usize = 2 << 20;

/// A call, not yet admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// What was signed: from the protocol segment to the application's key.
    pub url_path: String,
    /// `param2` or `http`.
    pub protocol: String,
    pub version: String,
    pub namespace: String,
    pub name: String,
    pub app_key: String,
    /// Every parameter but the signature, in the order sent.
    pub params: Vec<(String, String)>,
    pub signature: Option<String>,
}

impl Call {
    /// The parameter of that name, when it is there and not empty.
    pub fn param(&self, name: &str) -> Option<&str> {
        let found = self.params.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    fn addressed(path: &str) -> Option<Call> {
        let url_path = path.strip_prefix("/openapi/")?;
        let parts: Vec<&str> = url_path.split('/').collect();
        let [protocol, version, namespace, name, app_key] = parts.as_slice() else {
            return None;
        };
        Some(Call {
            url_path: url_path.to_owned(),
            protocol: (*protocol).to_owned(),
            version: (*version).to_owned(),
            namespace: (*namespace).to_owned(),
            name: (*name).to_owned(),
            app_key: (*app_key).to_owned(),
            params: Vec::new(),
            signature: None,
        })
    }

    fn add(&mut self, params: impl IntoIterator<Item = (String, String)>) {
        for (key, value) in params {
            if key == SIGNATURE {
                self.signature = Some(value).filter(|value| !value.is_empty());
            } else {
                self.params.push((key, value));
            }
        }
    }
}

/// Reads a request.
///
/// # Errors
/// When its address is no call's, or its body cannot be read.
pub async fn read(request: Request) -> Result<Call, String> {
    let path = request.uri().path();
    let mut call = Call::addressed(path).ok_or_else(|| format!("{path} addresses no call"))?;
    call.add(form(request.uri().query().unwrap_or_default().as_bytes()));
    let kind = content_type(request.headers());
    if kind.starts_with("multipart/form-data") {
        call.add(multipart(request).await?);
    } else if kind.starts_with("application/x-www-form-urlencoded") {
        call.add(form(&body(request.into_body()).await?));
    }
    Ok(call)
}

fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_ascii_lowercase()
}

fn form(bytes: &[u8]) -> Vec<(String, String)> {
    url::form_urlencoded::parse(bytes).into_owned().collect()
}

async fn body(body: Body) -> Result<Vec<u8>, String> {
    let bytes = axum::body::to_bytes(body, MAX_BODY).await.map_err(|e| e.to_string())?;
    Ok(bytes.to_vec())
}

async fn multipart(request: Request) -> Result<Vec<(String, String)>, String> {
    let mut parts =
        Multipart::from_request(request, &()).await.map_err(|rejected| rejected.body_text())?;
    let mut params = Vec::new();
    while let Some(part) = parts.next_field().await.map_err(|e| e.body_text())? {
        let name = part.name().unwrap_or_default().to_owned();
        let is_file = part.file_name().is_some();
        let value = part.bytes().await.map_err(|e| e.body_text())?;
        if !is_file {
            params.push((name, String::from_utf8_lossy(&value).into_owned()));
        }
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/openapi/param2/1/com.alibaba.trade/alibaba.trade.cancel/1000000";

    fn request(uri: &str, kind: &str, body: &'static str) -> Request {
        let builder = Request::builder().method("POST").uri(uri);
        builder.header("content-type", kind).body(Body::from(body)).unwrap()
    }

    #[tokio::test]
    async fn the_three_transports_say_the_same() {
        let form = "application/x-www-form-urlencoded; charset=UTF-8";
        let body = "remark=%E5%A4%87+%2B&tradeID=58218860983545944&empty=&_aop_signature=AB";
        let by_form = read(request(PATH, form, body)).await.unwrap();
        let by_query = read(request(&format!("{PATH}?{body}"), "", "")).await.unwrap();
        let parts = "--x\r\nContent-Disposition: form-data; name=\"remark\"\r\n\r\n备 +\r\n\
            --x\r\nContent-Disposition: form-data; name=\"tradeID\"\r\n\r\n58218860983545944\r\n\
            --x\r\nContent-Disposition: form-data; name=\"empty\"\r\n\r\n\r\n\
            --x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.png\"\r\n\r\nPNG\r\n\
            --x--\r\n";
        let uri = format!("{PATH}?_aop_signature=AB");
        let kind = "multipart/form-data; boundary=x";
        let by_parts = read(request(&uri, kind, parts)).await.unwrap();
        assert_eq!(by_form.param("remark"), Some("备 +"));
        assert_eq!(by_form.param("empty"), None);
        assert_eq!(by_form.params.len(), 3);
        assert_eq!(by_form.signature.as_deref(), Some("AB"));
        assert_eq!(by_form.url_path, PATH.strip_prefix("/openapi/").unwrap());
        assert_eq!(by_form, by_query);
        assert_eq!(by_form, by_parts);
    }

    #[tokio::test]
    async fn another_address_is_no_call() {
        for path in ["/openapi/param2/1/system/currentTime", "/api/param2/1/a/b/c", "/"] {
            assert!(read(request(path, "", "")).await.is_err(), "{path}");
        }
    }
}

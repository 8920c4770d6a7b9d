//! A row of the list of routes: where it is, what it needs, who answers it, and what is to be said of it. The router and
//! the API's description are both made of the same rows, so that neither can know a route that the other does not.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::handler::Handler;
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::Desk;
use crate::error::{Code, Error};
use crate::guard::{Needs, admit, edge};
use crate::request_id;

/// One route.
pub(crate) struct Route {
    pub method: Method,
    pub path: &'static str,
    pub needs: Needs,
    pub summary: &'static str,
    /// The parameters that it reads of the query.
    pub asks: &'static [Parameter],
    /// The schema of its body.
    pub takes: Option<&'static str>,
    pub answers: Answer,
    /// Without it the route is not there.
    condition: Option<Condition>,
    endpoint: MethodRouter<Arc<Desk>>,
}

/// What has to be configured for a route to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// A webhook, which is sent decision links.
    Webhook,
}

impl Condition {
    fn holds(self, desk: &Desk) -> bool {
        match self {
            Self::Webhook => desk.approvals.has_links(),
        }
    }
}

/// What comes back if all is well.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// Status and the name of a schema.
    Json(StatusCode, &'static str),
    /// JSON of this schema, or server-sent events if the request asks for a stream.
    JsonOrEvents(&'static str),
    /// Server-sent events, each with data of this schema.
    Events(&'static str),
    /// Text of this type.
    Text(&'static str),
    /// Another protocol from then on.
    Upgrade,
}

/// A parameter of a query.
pub(crate) struct Parameter {
    pub name: &'static str,
    pub summary: &'static str,
}

pub(crate) fn get<H, T>(path: &'static str, needs: Needs, endpoint: H, summary: &'static str) -> Route
where
    H: Handler<T, Arc<Desk>>,
    T: 'static,
{
    Route::new(Method::GET, path, needs, summary, on(MethodFilter::GET, endpoint))
}

pub(crate) fn post<H, T>(path: &'static str, needs: Needs, endpoint: H, summary: &'static str) -> Route
where
    H: Handler<T, Arc<Desk>>,
    T: 'static,
{
    Route::new(Method::POST, path, needs, summary, on(MethodFilter::POST, endpoint))
}

pub(crate) fn delete<H, T>(path: &'static str, needs: Needs, endpoint: H, summary: &'static str) -> Route
where
    H: Handler<T, Arc<Desk>>,
    T: 'static,
{
    Route::new(Method::DELETE, path, needs, summary, on(MethodFilter::DELETE, endpoint))
}

impl Route {
    fn new(
        method: Method,
        path: &'static str,
        needs: Needs,
        summary: &'static str,
        endpoint: MethodRouter<Arc<Desk>>,
    ) -> Self {
        let (condition, answers) = (None, Answer::Text("text/plain"));
        Self { method, path, needs, summary, asks: &[], takes: None, answers, condition, endpoint }
    }

    pub(crate) fn only_with(self, condition: Condition) -> Self {
        Self { condition: Some(condition), ..self }
    }

    /// Whether this server has the route.
    pub(crate) fn is_there(&self, desk: &Desk) -> bool {
        self.condition.is_none_or(|condition| condition.holds(desk))
    }

    pub(crate) fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    pub(crate) fn asks(self, asks: &'static [Parameter]) -> Self {
        Self { asks, ..self }
    }

    pub(crate) fn takes(self, schema: &'static str) -> Self {
        Self { takes: Some(schema), ..self }
    }

    pub(crate) fn answers(self, schema: &'static str) -> Self {
        Self { answers: Answer::Json(StatusCode::OK, schema), ..self }
    }

    pub(crate) fn answers_or_streams(self, schema: &'static str) -> Self {
        Self { answers: Answer::JsonOrEvents(schema), ..self }
    }

    pub(crate) fn creates(self, schema: &'static str) -> Self {
        Self { answers: Answer::Json(StatusCode::CREATED, schema), ..self }
    }

    pub(crate) fn streams(self, schema: &'static str) -> Self {
        Self { answers: Answer::Events(schema), ..self }
    }

    pub(crate) fn upgrades(self) -> Self {
        Self { answers: Answer::Upgrade, ..self }
    }

    pub(crate) fn writes(self, content_type: &'static str) -> Self {
        Self { answers: Answer::Text(content_type), ..self }
    }
}

/// All routes behind the guard, everything else refused in our own words, and each request counted.
pub(crate) fn router(routes: Vec<Route>, desk: &Arc<Desk>) -> Router {
    let guard = &desk.guard;
    let mut router = Router::new();
    for route in routes.into_iter().filter(|route| route.is_there(desk)) {
        let admit = from_fn_with_state((Arc::clone(guard), route.needs), admit);
        router = router.route(route.path, route.endpoint.layer(admit));
    }
    router
        .fallback(|request: Request| async move {
            let of_openai = request.uri().path().starts_with("/v1/");
            let there = if of_openai {
                "of the OpenAI API there are /v1/chat/completions, /v1/responses, /v1/conversations and /v1/models"
            } else {
                "GET /api/openapi.json lists them"
            };
            Error::new(Code::RouteNotFound, format!("there is no such route; {there}"))
        })
        .method_not_allowed_fallback(|| async {
            Error::new(Code::MethodNotAllowed, "this route does not know that method; GET /api/openapi.json lists them")
        })
        // `admit` has bounded every body, and says so in our own words.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Arc::clone(guard), edge))
        .layer(from_fn_with_state(Arc::clone(desk), count))
        .layer(from_fn(request_id::name))
        .with_state(Arc::clone(desk))
}

async fn count(State(desk): State<Arc<Desk>>, matched: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let response = next.run(request).await;
    let route = matched.as_ref().map_or("other", MatchedPath::as_str);
    desk.feed.metrics().count_request(route, &method, response.status());
    response
}

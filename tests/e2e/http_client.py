"""A client of the HTTP service with Python's own library only."""
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request


class Answer:
    """Status, headers and body of an answer."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    def __str__(self):
        return f"status {self.status}\n{self.body[:2000]!r}"


class HttpClient:
    """Sends requests to `base` with a token; an error status is an answer like any other."""

    def __init__(self, base, token="", certificate=None):
        self.base, self.token = base, token
        self.context = ssl.create_default_context(cafile=certificate) if certificate else None

    def open(self, method, path, body=None, content_type="application/json", deadline_s=120,
             accept=None, headers=None):
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method,
                                         headers=headers or {})
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        if accept:
            request.add_header("Accept", accept)
        if data is not None:
            request.add_header("Content-Type", content_type)
        return urllib.request.urlopen(request, timeout=deadline_s, context=self.context)

    def ask(self, method, path, body=None, **options):
        try:
            with self.open(method, path, body, **options) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.ask("POST", path, {} if body is None else body, **options)

    def events(self, path):
        """The events of a stream as (name, data), until it ends."""
        with self.open("GET", path) as answer:
            name = None
            for line in answer:
                line = line.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "))


def job_path(job, rest=""):
    return f"/api/v1/jobs/{urllib.parse.quote(job, safe='')}{rest}"

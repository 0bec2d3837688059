#pragma once
// Tells a request of this service's own page, or of a program, from one that a page of another site
// has made a browser send. A browser sends such requests in the name of its user, and
// reaches addresses that the other site cannot reach, such as the loopback address.
#include <string>

#include "actors/service/core/http_types.h"

namespace es::actors::http {

// Error (refused): a browser says that the page of another site sends this request. Browsers that
// send Sec-Fetch-Site tell the truth about this even behind a proxy; for the others the header
// Origin has to name the host of this service. A program sends neither.
Status check_same_site(const Request& request);

// Whether the header Host names the loopback address. A service without tokens answers no other
// name, because the name of another site may lead to this address (DNS rebinding), and then the
// browser takes both for one site.
bool is_loopback_host(const std::string& host);

// Error (usage): the type of the body is not JSON although the request changes something. A form or
// a script of another site can send a POST without JSON and need not ask the service before.
Status check_content_type(const Request& request);

}  // namespace es::actors::http

// SPDX-License-Identifier: Apache-2.0
// Tests a server over loopback, with the features that torch's control plane
// uses.
#include <cstdio>
#include <string>
#include <thread>

#include "httplib.h"

int main() {
  httplib::Server server;
  server.Post("/echo",
              [](const httplib::Request& request, httplib::Response& response) {
                response.set_content(request.body + "!", "text/plain");
              });
  const int port = server.bind_to_any_port("127.0.0.1");
  if (port <= 0) {
    std::fprintf(stderr, "cpp_httplib_test: no port on 127.0.0.1\n");
    return 1;
  }
  std::thread serving([&server] { server.listen_after_bind(); });
  server.wait_until_ready();

  httplib::Client client("127.0.0.1", port);
  const std::string body(100000, 'x');
  const auto echo = client.Post("/echo", body, "text/plain");
  const auto missing = client.Get("/missing");
  server.stop();
  serving.join();
  if (!echo || echo->status != 200 || echo->body != body + "!") {
    std::fprintf(stderr, "cpp_httplib_test: /echo returned a wrong answer\n");
    return 1;
  }
  if (!missing || missing->status != 404) {
    std::fprintf(stderr, "cpp_httplib_test: /missing did not return 404\n");
    return 1;
  }
  return 0;
}

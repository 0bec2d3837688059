// The tokens of the HTTP service: `esctl token add`, `ls` and `revoke`.
#include <nlohmann/json.hpp>

#include "actors/base/program/default_paths.h"
#include "actors/base/program/private_directory.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/service/shell/token_file.h"
#include "actors/views/json_text.h"
#include "actors/views/render_text.h"

namespace es::actors::esctl {
namespace {

using Json = nlohmann::ordered_json;
using http::Token;

struct TokenOptions {
  std::string state = default_state_dir();
  std::optional<std::string> file;  // default: tokens in the state directory
  std::string name, role, tenant;
  bool json = false;
};

std::string file_of(const TokenOptions& options) {
  return options.file ? *options.file : options.state + "/tokens";
}

Json token_object(const Token& token) {
  const http::Identity& who = token.identity;
  return {{"name", who.name},
          {"role", role_name(who.role)},
          {"tenant", who.tenant.empty() ? Json() : Json(who.tenant)}};
}

Status add_token(const TokenOptions& options, Console& console) {
  const auto role = access::parse_role(options.role);
  if (!role) return usage_error("--role: " + role.error().message);
  for (const std::string* name : {&options.name, &options.tenant})
    if (!(name == &options.tenant && name->empty()) && !access::is_identity_name(*name))
      return usage_error("\"" + escaped(*name) +
                         "\": a name has 1 to 64 letters, digits, '-', '_' and '.'");
  // The first token may come before the first head, which would make this directory.
  if (!options.file) ES_RETURN_IF_ERROR(make_private_directory(options.state));
  const std::string secret = http::new_token();
  const Token token{{options.name, *role, options.tenant}, http::sha256_hex(secret)};
  ES_RETURN_IF_ERROR(
      http::change_tokens(file_of(options), [&](std::vector<Token>& tokens) -> Status {
        for (const Token& t : tokens)
          if (t.identity.name == options.name)
            return refused(options.name + ": there is a token of this name; revoke it first");
        tokens.push_back(token);
        return {};
      }));
  Json json = token_object(token);
  json["token"] = secret;
  console.out << (options.json ? json_text(json) : secret) << "\n";
  if (!options.json)
    console.err << "This is the only time that the token is shown. The file " << file_of(options)
                << " has its digest.\n";
  return {};
}

Status list_tokens(const TokenOptions& options, Console& console) {
  const auto tokens = http::read_tokens(file_of(options));
  if (!tokens) return tokens.error();
  if (options.json) {
    Json list = Json::array();
    for (const Token& token : *tokens) list.push_back(token_object(token));
    console.out << json_text({{"tokens", list}}) << "\n";
    return {};
  }
  std::vector<std::vector<std::string>> rows{{"NAME", "ROLE", "TENANT"}};
  for (const Token& t : *tokens)
    rows.push_back({t.identity.name, role_name(t.identity.role),
                    t.identity.tenant.empty() ? "-" : t.identity.tenant});
  console.out << table(rows);
  return {};
}

Status revoke_token(const TokenOptions& options, Console& console) {
  ES_RETURN_IF_ERROR(
      http::change_tokens(file_of(options), [&](std::vector<Token>& tokens) -> Status {
        const auto removed =
            std::erase_if(tokens, [&](const Token& t) { return t.identity.name == options.name; });
        if (removed == 0)
          return not_found("\"" + escaped(options.name) + "\": there is no token of this name in " +
                           file_of(options));
        return {};
      }));
  if (options.json)
    console.out << json_text({{"revoked", options.name}}) << "\n";
  else
    console.out << options.name << " is revoked; a running head knows it within two seconds\n";
  return {};
}

}  // namespace

void add_token_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<TokenOptions>();
  CLI::App* command = app.add_subcommand("token", "Who may use the HTTP service of a head");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, auto run) {
    CLI::App* sub = command->add_subcommand(name, help);
    sub->add_option("--state", options->state, "State directory of the head (easyscaled --state)")
        ->type_name("DIR")
        ->capture_default_str();
    sub->add_option("--file", options->file,
                    "File with the tokens (easyscaled --http-tokens; default: STATE/tokens)")
        ->type_name("FILE");
    add_json_option(*sub, options->json);
    sub->callback([options, run, &shell] {
      shell.exit_code = finish(run(*options, shell.console), options->json, shell.console);
    });
    return sub;
  };
  CLI::App* make = add("add", "Make a token and print it once", add_token);
  make->add_option("name", options->name, "Whose token it is")->required()->type_name("NAME");
  make->add_option("--role", options->role, "view, submit, operate or admin")
      ->required()
      ->type_name("ROLE");
  make->add_option("--tenant", options->tenant,
                   "Sees, changes and submits jobs of this tenant only");
  make->footer("Example:\n  esctl token add alice --role submit --tenant vision");
  add("ls", "List the tokens, without their secrets", list_tokens);
  add("revoke", "Remove a token", revoke_token)
      ->add_option("name", options->name, "Whose token it is")
      ->required()
      ->type_name("NAME");
}

}  // namespace es::actors::esctl

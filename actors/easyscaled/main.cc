// easyscaled: the daemon of every node. `easyscaled worker` is one of its worker processes.
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "actors/base/job_file/price_options.h"
#include "actors/base/job_file/queue_file.h"
#include "actors/base/log/log.h"
#include "actors/base/program/default_devices.h"
#include "actors/base/program/default_paths.h"
#include "actors/base/program/finite.h"
#include "actors/base/program/log_options.h"
#include "actors/base/program/program.h"
#include "actors/base/program/program_version.h"
#include "actors/base/program/unknown_word.h"
#include "actors/easyscaled/daemon.h"
#include "actors/worker/shell/worker_main.h"
#include "gpu/engine/device_choice.h"
#include "proto/base/service_url.h"

namespace {

using namespace es;
using namespace es::actors;

Status check_devices(const DeviceSet& devices, std::uint32_t workers_per_gpu) {
  for (const DeviceCount& c : devices.counts) {
    gpu::EngineOptions unused;
    const Status there = gpu::choose_device(c.type, 0, unused);
    if (!there.ok()) return Error{there.error().kind, "--devices: " + there.error().message};
    const std::uint32_t gpus = gpu::is_gpu(c.type) ? gpu::count_gpus(c.type) : 0;
    if (gpus != 0 && c.count > gpus * workers_per_gpu)
      return refused("--devices: " + c.type.name + ":" + std::to_string(c.count) +
                     ": this machine has " + std::to_string(gpus) + ", for " +
                     std::to_string(workers_per_gpu) + " workers each (--workers-per-gpu)");
  }
  return {};
}

Status parse_policy(const std::string& queue_file, const std::vector<std::string>& quotas,
                    const std::string& claim_quota, DaemonOptions& options) {
  if (const auto policy = scheduler::make_policy(options.policy, options.policy_options); !policy)
    return usage_error("--policy: " + policy.error().message);
  auto parsed = read_queues(queue_file, quotas);
  if (!parsed) return Error{parsed.error().kind, "--queues: " + parsed.error().message};
  options.queues = *std::move(parsed);
  if (const Status held = scheduler::check_queues(options.policy, options.queues); !held.ok())
    return usage_error((queue_file.empty() ? "--quota: " : "--queues: ") + held.error().message);
  if (options.share_half_life_s > 0 && options.queues.empty())
    return usage_error("--share-half-life: there are no queues; give --queues FILE");
  if (claim_quota.empty()) return {};
  auto devices = parse_device_set(claim_quota);
  if (!devices) return usage_error("--claim-quota: " + devices.error().message);
  options.claim_quota = *std::move(devices);
  return {};
}

CLI::Validator rack_name() {
  return {[](const std::string& text) -> std::string {
            const bool good = !text.empty() && text.size() <= 64 &&
                              text.find_first_not_of(
                                  "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-_.") == std::string::npos;
            return good ? "" : text + ": allowed are 1 to 64 letters, digits, '-', '_' and '.'";
          },
          ""};
}

std::string host_name() {
  char name[256] = "node";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// What --http-no-tokens lets all users do; none: tokens are needed. A configuration file may also
// have true or false.
Result<std::optional<access::Role>> role_without_tokens(const std::string& text) {
  using Role = std::optional<access::Role>;
  if (text.empty() || text == "false") return Role();
  if (text == "view" || text == "true") return Role(access::Role::kView);
  if (text == "operate") return Role(access::Role::kOperate);
  return usage_error("--http-no-tokens = \"" + text + "\": allowed are view and operate");
}

// The devices that --devices names; an empty text means the default.
Result<DeviceSet> offered_devices(const std::string& text) {
  if (text.empty()) return default_devices();
  if (text == "best") return best_devices();
  if (text == "none") return DeviceSet();
  auto devices = parse_device_set(text);
  if (!devices)
    return usage_error("--devices: " + devices.error().message +
                       "; allowed are also best and none");
  return devices;
}

// What the command line says in other words than DaemonOptions.
struct Words {
  std::string devices;
  bool no_rescue = false;
  std::uint32_t workers_per_gpu = 1;
  double grace_s = std::chrono::duration<double>(DaemonOptions().grace).count();
  std::vector<std::string> quotas, prices, spot_prices;
  std::string queue_file, claim_quota;
  double half_life_hours = 0;
  std::optional<double> keep_days;
  std::string no_tokens;
  double otlp_s = std::chrono::duration<double>(DaemonOptions().http.otlp.interval).count();
};

// Which part of the service this process is, and where its files are.
void add_place_options(CLI::App& app, DaemonOptions& options, Words& words) {
  app.add_flag("--head", options.head, "Run the head, which is also a node");
  app.add_option("--join", options.join, "Endpoint of the head to join");
  app.add_option("--listen", options.listen, "Head: endpoint at which it serves")
      ->capture_default_str();
  app.add_option("--state", options.state_dir,
                 "Head: state directory, for journal, logs and checkpoints")
      ->capture_default_str();
  app.add_flag("--may-grow", options.may_grow,
               "Head: more nodes may join, so a job, a stage or a claim that needs more devices "
               "than there are waits for them instead of being refused");
  app.add_flag("--recover", options.recover,
               "Head: if the state directory is damaged, keep it under another name, continue with "
               "its undamaged part, and print what is lost");
  app.add_option("--run-dir", options.run_dir,
                 "Directory for the sockets and logs of workers (default: STATE/run)");
  app.add_option("--rescue", options.rescue_dir,
                 "Directory for the last state of a job that fails because of its data (default: "
                 "STATE/rescue)");
  app.add_flag("--no-rescue", words.no_rescue, "Save no state of such a job")->excludes("--rescue");
}

// What this node offers, and how.
void add_node_options(CLI::App& app, DaemonOptions& options, Words& words) {
  app.add_option("--node", options.node_name, "Name of this node")->capture_default_str();
  app.add_option(
      "--devices", words.devices,
      "Devices to offer, e.g. cpu-avx2:2+cpu-scalar:1; best for every GPU, or without a GPU one "
      "device of the fastest kernel class; none for a head that only serves (default: " +
          default_devices().text() + ")");
  app.add_option("--rack", options.rack,
                 "Rack in which this node stands; the devices of a job are chosen in few racks")
      ->check(rack_name())
      ->type_name("NAME");
  app.add_option("--island", options.island_devices,
                 "Number of devices of a type, in the order of their indices, that are linked with "
                 "each other (NVLink); a job gets such devices together. 0: all of this node")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_flag("--spot", options.spot,
               "This machine may be taken away at any time. Its devices go to jobs that may be "
               "suspended first; `esctl drain NODE --in SECONDS` announces its end");
  app.add_option("--workers-per-gpu", words.workers_per_gpu,
                 "Workers that may share one GPU; --devices then offers a GPU up to this number of "
                 "times. For tests and small clusters")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--loaders", options.loaders,
                 "Threads of each worker process that load and augment mini-batches")
      ->check(CLI::Range(1, kLoadersMax))
      ->capture_default_str();
  app.add_option(
         "--grace", words.grace_s,
         "Seconds after SIGTERM to hand the workers of this node over, or to save their jobs")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finite_number())
      ->capture_default_str();
  app.add_option(
      "--parent-pid", options.parent_pid,
      "End when the process with this id ends; a head then cancels its jobs, and also at SIGTERM");
}

// Who gets which devices.
void add_policy_options(CLI::App& app, DaemonOptions& options, Words& words) {
  app.add_option(
         "--policy", options.policy,
         "Head: the policy that decides which job gets which devices; `esctl sim --help` lists all")
      ->capture_default_str();
  app.add_option("--fairness", options.policy_options.fairness,
                 "Head: knob of the policy elastic-srtf, from 0 (fast) to 1 (fair)")
      ->check(CLI::Range(0.0, 1.0))
      ->check(finite_number())
      ->capture_default_str();
  app.add_option(
      "--quota", words.quotas,
      "Head: devices that a tenant owns, TENANT=TYPE:COUNT[+TYPE:COUNT...]; may be repeated. Short "
      "for a queue of this name with this guarantee");
  app.add_option("--queues", words.queue_file,
                 "Head: TOML file of queues, with guarantees, limits and weights; "
                 "configs/queues.toml is an example")
      ->type_name("FILE");
  app.add_option(
         "--share-half-life", words.half_life_hours,
         "Head: order queues by what they have used over their weights, with this half-life "
         "in hours; 0: divide what no guarantee needs by the weights at every moment")
      ->check(CLI::Range(0.0, 1e5))
      ->check(finite_number())
      ->capture_default_str();
  app.add_option("--price", words.prices,
                 "Head: what a device of a type costs in an hour, TYPE=NUMBER, in any unit; may be "
                 "repeated")
      ->type_name("TYPE=NUMBER");
  app.add_option("--spot-price", words.spot_prices,
                 "Head: the same for devices of spot nodes (default: --price of the type)")
      ->type_name("TYPE=NUMBER");
  app.add_option("--claim-quota", words.claim_quota,
                 "Head: the largest number of devices of each type that claims may take together "
                 "(default: all)");
}

// What is kept of jobs, and what they may read and write.
void add_job_options(CLI::App& app, DaemonOptions& options, Words& words) {
  app.add_option("--keep-jobs", options.retention.jobs,
                 "Head: number of jobs that are over which are kept, with their ledgers and logs; "
                 "those that ended first are removed. Checkpoints stay (default: all)")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1'000'000'000}))
      ->type_name("NUMBER");
  app.add_option("--keep-job-days", words.keep_days,
                 "Head: days for which jobs that are over are kept likewise (default: for ever)")
      ->check(CLI::Range(0.0, 1e5))
      ->check(finite_number())
      ->type_name("DAYS");
  app.add_option(
         "--data-root", options.data_roots,
         "Directory in which the data sets, vocabularies and weights of jobs must lie; may be "
         "repeated. Without it a head accepts such paths only from clients of its local socket")
      ->type_name("DIR");
  app.add_option("--checkpoint-root", options.checkpoint_roots,
                 "The same for checkpoints. Clients that reach a head by tcp may always name "
                 "STATE/checkpoints, and no other directory without this option")
      ->type_name("DIR");
  app.add_option(
         "--mlflow", options.mlflow,
         "MLflow server to which the head may write the curves of jobs (log.mlflow); may be "
         "repeated. Without it a head accepts such servers only from clients of its local "
         "socket")
      ->type_name("URL");
  app.add_flag("--python-data", options.python_data,
               "Run the Python code of datasets that clients submit over the network; it can do "
               "whatever the user of this daemon may do. A head and its nodes need this option");
}

// The HTTP service and what is sent by HTTP.
void add_http_options(CLI::App& app, DaemonOptions& options, Words& words) {
  app.add_option("--http", options.http.address,
                 "Serve /metrics, and on a head the web page and the API, at ADDRESS:PORT, for "
                 "example 127.0.0.1:8080; port 0 for any free one")
      ->type_name("ADDRESS:PORT");
  app.add_option("--http-tokens", options.http.tokens,
                 "File with the tokens of the HTTP service, which `esctl token add` writes "
                 "(default: STATE/tokens; on a node without --state beside its --run-dir)")
      ->type_name("FILE");
  app.add_flag("--http-no-tokens{view}", words.no_tokens,
               "Every user of this machine may see everything by HTTP, and with "
               "--http-no-tokens=operate do everything but end the head; loopback address only");
  app.add_option("--http-cert", options.http.certificate,
                 "Certificate (PEM) of the HTTP service, needed beyond the loopback address")
      ->type_name("FILE");
  app.add_option("--http-key", options.http.key, "Private key (PEM) of this certificate")
      ->type_name("FILE");
  app.add_option(
         "--otlp", options.http.otlp.url,
         "Send the metrics to this collector of OpenTelemetry (OTLP over HTTP), for example "
         "http://127.0.0.1:4318, without --http too")
      ->type_name("URL");
  app.add_option("--otlp-interval", words.otlp_s, "Seconds between two of these messages")
      ->check(CLI::Range(0.1, 86'400.0))
      ->check(finite_number())
      ->capture_default_str();
}

// The HTTP service as it is to be.
Status complete_http(const Words& words, DaemonOptions& options) {
  options.http.otlp.interval = std::chrono::milliseconds(std::llround(words.otlp_s * 1000));
  auto without_tokens = role_without_tokens(words.no_tokens);
  if (!without_tokens) return without_tokens.error();
  options.http.no_tokens = *without_tokens;
  if (const char* headers = std::getenv("OTEL_EXPORTER_OTLP_HEADERS"); headers != nullptr)
    options.http.otlp.headers = headers;
  for (const std::string& url : options.mlflow)
    ES_RETURN_IF_ERROR(check_service_url("--mlflow", url));
  return http::check(options.http);
}

// The places that were not named.
void complete_places(const CLI::App& app, const Words& words, DaemonOptions& options) {
  const bool has_own_place = options.head || app.count("--state") != 0 || options.run_dir.empty();
  if (options.run_dir.empty()) options.run_dir = options.state_dir + "/run";
  if (options.rescue_dir.empty() && !words.no_rescue)
    options.rescue_dir = options.state_dir + "/rescue";
  // A node has a state directory only if it is told one; else its tokens are beside its run-dir.
  if (options.http.tokens.empty())
    options.http.tokens = has_own_place ? options.state_dir + "/tokens"
                                        : (std::filesystem::absolute(options.run_dir) / "../tokens")
                                              .lexically_normal()
                                              .string();
}

Status complete_devices(const Words& words, DaemonOptions& options) {
  auto offered = offered_devices(words.devices);
  if (!offered) return offered.error();
  options.devices = *std::move(offered);
  if (options.devices.empty() && !options.head)
    return usage_error("--devices none: allowed only with --head; a node offers devices");
  return check_devices(options.devices, words.workers_per_gpu);
}

Status complete_policy(const Words& words, DaemonOptions& options) {
  options.share_half_life_s = words.half_life_hours * 3600;
  ES_RETURN_IF_ERROR(parse_policy(words.queue_file, words.quotas, words.claim_quota, options));
  auto parsed_prices = parse_prices(words.prices, words.spot_prices);
  if (!parsed_prices) return parsed_prices.error();
  options.prices = *std::move(parsed_prices);
  return {};
}

// Turns the words into options. Error (usage): what does not fit, with the option.
Status complete(const CLI::App& app, const Words& words, DaemonOptions& options) {
  // The two values differ exactly if neither or both of the options were given.
  if (options.head != options.join.empty())
    return usage_error("easyscaled: give --head, or --join ENDPOINT, and not both");
  if (options.recover && !options.head)
    return usage_error("--recover: allowed only with --head, which has the state directory");
  ES_RETURN_IF_ERROR(complete_http(words, options));
  complete_places(app, words, options);
  if (words.keep_days)
    options.retention.age =
        std::chrono::milliseconds(std::llround(*words.keep_days * 24 * 3600 * 1000));
  options.grace = std::chrono::milliseconds(std::llround(words.grace_s * 1000));
  ES_RETURN_IF_ERROR(complete_devices(words, options));
  return complete_policy(words, options);
}

Result<DaemonOptions> parse(int argc, char** argv) {
  DaemonOptions options;
  options.listen = default_head_endpoint();
  options.state_dir = default_state_dir();
  options.node_name = host_name();
  Words words;
  CLI::App app(
      "easyscaled: EasyScale's daemon.\n\n"
      "  easyscaled --head                        head and node in one process\n"
      "  easyscaled --join tcp://HEAD:7070 ...    a node that joins a head\n",
      "easyscaled");
  app.set_version_flag("--version", version_line("easyscaled"));
  add_place_options(app, options, words);
  add_node_options(app, options, words);
  add_policy_options(app, options, words);
  add_job_options(app, options, words);
  add_http_options(app, options, words);
  add_log_options(app, options.log);
  add_log_file_options(app, options.log);
  app.add_option("--worker-logs", options.worker_logs,
                 "Number of logs of workers that have ended which are kept in the run directory")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  add_wire_options(app, options.wire);
  app.set_config("--config", "", "Read options from this TOML file, e.g. configs/easyscaled.toml")
      ->type_name("FILE");
  app.allow_config_extras(CLI::config_extras_mode::error);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const auto unknown = unknown_word(app, e);
    if (unknown && e.get_exit_code() != 0)
      return Error{unknown->kind, "easyscaled: " + unknown->message};
    throw Ended{app.exit(e) == 0 ? 0 : exit_code(ErrorKind::kUsage)};
  }
  ES_RETURN_IF_ERROR(complete(app, words, options));
  return options;
}

int daemon_main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  // The reader of the log may go away; the jobs must continue.
  std::signal(SIGPIPE, SIG_IGN);
  if (!options) return refuse(options.error());
  if (const Status logs = log::start(options->log); !logs.ok()) return refuse(logs.error());
  const Status status = run_daemon(*options);
  if (status.ok()) return 0;
  log::error(status.error().message);
  return exit_code(status.error().kind);
}

}  // namespace

int main(int argc, char** argv) {
  // The workers are the same program, so a worker never has another version than its daemon.
  if (argc > 1 && std::strcmp(argv[1], "worker") == 0)
    return run_program("easyscaled worker", [&] { return worker_main(argc - 1, argv + 1); });
  return run_program("easyscaled", [&] { return daemon_main(argc, argv); });
}

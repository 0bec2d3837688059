// esctl slurm up, down: an EasyScale cluster whose nodes are jobs of Slurm.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "actors/base/program/default_paths.h"
#include "actors/base/program/finite.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/process.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/slurm/slurm_cluster.h"
#include "actors/esctl/slurm/slurm_programs.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kPoll{500};

struct UpOptions {
  std::string directory, nodes, partition, address;
  ClusterFiles files;
  std::vector<std::string> agent_options, head_options;
  double idle_seconds = 300, every_seconds = 5;
  bool here = false;
};

struct DownOptions {
  std::string directory;
};

std::string default_directory() {
  return default_state_dir() + "/slurm";
}

// The arguments of the head's job, which runs `esctl slurm up --here` with them.
std::vector<std::string> arguments_of(const UpOptions& options, const ClusterDirectory& directory) {
  std::vector<std::string> words{"--dir", directory.path().string(), "--nodes", options.nodes};
  if (!options.partition.empty()) words.insert(words.end(), {"--partition", options.partition});
  if (!options.address.empty()) words.insert(words.end(), {"--address", options.address});
  for (const std::string& option : options.agent_options)
    words.push_back("--agent-option=" + option);
  words.insert(words.end(), {"--idle", std::to_string(options.idle_seconds), "--every",
                             std::to_string(options.every_seconds)});
  return words;
}

Status run_here(const UpOptions& options, const AgentLimits& limits,
                const ClusterDirectory& directory, const fs::path& easyscaled, Console& console) {
  StopSignals signals;
  const SlurmOptions slurm{
      .limits = limits,
      .partition = options.partition,
      .agent_options = options.agent_options,
      .address = options.address.empty() ? own_address() : options.address,
      .every = std::chrono::milliseconds(std::llround(options.every_seconds * 1000)),
      .easyscaled = easyscaled};
  return SlurmCluster(directory, slurm, signals, console).run();
}

// Waits until the head's job has written its endpoint, or is over.
Status wait_for_head(const ClusterDirectory& directory, const std::string& job,
                     const fs::file_time_type& before) {
  std::error_code unknown;
  for (;; std::this_thread::sleep_for(kPoll)) {
    const auto written = fs::last_write_time(directory.file("endpoint"), unknown);
    if (!unknown && written > before) return {};
    const auto jobs = jobs_named({directory.head_job()});
    if (!jobs) return jobs.error();
    if (jobs->empty())
      return failure("the head's job " + job + " has ended; its output is " +
                     directory.file("logs").string() + "/head-" + job + ".out");
  }
}

Status submit_head(const UpOptions& options, const ClusterDirectory& directory,
                   const fs::path& easyscaled, Console& console) {
  std::error_code unknown;
  auto before = fs::last_write_time(directory.file("endpoint"), unknown);
  if (unknown) before = fs::file_time_type::min();
  std::vector<std::string> words{"--job-name=" + directory.head_job(),
                                 "--output=" + directory.file("logs/head-%j.out").string()};
  if (!options.partition.empty()) words.push_back("--partition=" + options.partition);
  words.insert(words.end(), options.head_options.begin(), options.head_options.end());
  const auto job =
      submit_script(words, directory.file("head.sbatch").string(), arguments_of(options, directory),
                    {{"EASYSCALED", easyscaled.string()},
                     {"ESCTL", fs::read_symlink("/proc/self/exe", unknown).string()}});
  if (!job) return job.error();
  console.out << "the head is job " << *job
              << " of Slurm; waiting until it serves (Ctrl-C stops only "
              << "the waiting)" << std::endl;
  ES_RETURN_IF_ERROR(wait_for_head(directory, *job, before));
  console.out << "the head serves. For esctl:\n  export ES_HEAD=" << directory.endpoint()
              << "\n  export ES_KEYS=" << directory.file("keys").string() << "\n";
  return {};
}

Status up(const UpOptions& options, Console& console) {
  auto limits = parse_limits(options.nodes);
  if (!limits) return limits.error();
  limits->idle = std::chrono::seconds(std::llround(options.idle_seconds));
  const auto easyscaled = find_easyscaled();
  if (!easyscaled) return easyscaled.error();
  // Before anything is made.
  if (const auto slurm = run_program_of_slurm({"sbatch", "--version"}); !slurm)
    return slurm.error();
  auto directory = ClusterDirectory::create(options.directory, options.files);
  if (!directory) return directory.error();
  // A request to end that no head has carried out any more is not meant for the new head.
  ES_RETURN_IF_ERROR(directory->set_going_down(false));
  if (options.here) return run_here(options, *limits, *directory, *easyscaled, console);
  const auto jobs = jobs_named({directory->head_job()});
  if (!jobs) return jobs.error();
  if (!jobs->empty())
    return refused("the cluster in " + directory->path().string() + " has a head already: job " +
                   jobs->front().id + " of Slurm; esctl slurm down ends it");
  return submit_head(options, *directory, *easyscaled, console);
}

// Whether a head of the cluster serves, or waits for its start.
Result<bool> has_head(const ClusterDirectory& directory) {
  const auto jobs = jobs_named({directory.head_job()});
  if (!jobs) return jobs.error();
  if (!jobs->empty()) return true;
  const std::string endpoint = directory.endpoint();
  if (endpoint.empty()) return false;
  return connect({.endpoint = endpoint, .keys = directory.file("keys").string()}).ok();
}

// Without a head the agents cannot hand their workers over. The jobs continue from checkpoints.
Status cancel_agents(const ClusterDirectory& directory, Console& console) {
  const auto jobs = jobs_named({directory.agent_job()});
  if (!jobs) return jobs.error();
  std::vector<std::string> ids;
  for (const QueuedJob& job : *jobs) ids.push_back(job.id);
  ES_RETURN_IF_ERROR(cancel_jobs(ids));
  console.out << "no head runs; " << ids.size() << " agents are cancelled\n";
  return {};
}

// The head of the cluster ends the agents, because they need it to hand their workers over.
Status down(const DownOptions& options, Console& console) {
  const auto directory = ClusterDirectory::open(options.directory);
  if (!directory) return directory.error();
  const auto head = has_head(*directory);
  if (!head) return head.error();
  if (!*head) return cancel_agents(*directory, console);
  ES_RETURN_IF_ERROR(directory->set_going_down(true));
  console.out << "all jobs of EasyScale are saved, and the agents end; waiting for the head"
              << std::endl;
  for (; directory->is_going_down(); std::this_thread::sleep_for(kPoll)) {
  }
  console.out << "the cluster has ended; esctl slurm up --dir " << directory->path().string()
              << " continues its jobs\n";
  return {};
}

void add_up(CLI::App& slurm, Shell& shell) {
  auto options = std::make_shared<UpOptions>();
  options->directory = default_directory();
  CLI::App* command = slurm.add_subcommand("up", "Start a cluster: a head and its agents");
  command
      ->add_option("--nodes", options->nodes, "Smallest and largest number of agents, e.g. 4..16")
      ->required()
      ->type_name("MIN..MAX");
  command->add_option("--partition", options->partition, "Partition of the agents and the head")
      ->type_name("P");
  command
      ->add_option("--dir", options->directory,
                   "Directory of the cluster, seen by all nodes; keys, journal and logs are in it")
      ->type_name("DIR")
      ->capture_default_str();
  command
      ->add_option("--devices", options->files.devices,
                   "Devices of an agent of a new cluster, as for easyscaled --devices")
      ->capture_default_str();
  command
      ->add_option("--data-root", options->files.data_roots,
                   "Directory with data sets that jobs of a new cluster may read; may be repeated")
      ->type_name("DIR");
  command
      ->add_option("--checkpoint-root", options->files.checkpoint_roots,
                   "Directory for checkpoints of jobs of a new cluster; may be repeated")
      ->type_name("DIR");
  command->add_flag("--python-data", options->files.python_data,
                    "Jobs of a new cluster may have Python datasets");
  command
      ->add_option("--agent-option", options->agent_options,
                   "Option of sbatch for the agents, e.g. --agent-option=--gres=gpu:4; may be "
                   "repeated")
      ->type_name("OPTION");
  command
      ->add_option("--head-option", options->head_options,
                   "Option of sbatch for the head's job, e.g. --head-option=--partition=long")
      ->type_name("OPTION");
  command->add_option("--address", options->address,
                      "Address of the head's machine (default: that of its host name)");
  command
      ->add_option("--idle", options->idle_seconds,
                   "Seconds without a job after which an agent above MIN is given back")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finite_number())
      ->capture_default_str();
  command->add_option("--every", options->every_seconds, "Seconds between two looks at the queue")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0))
      ->check(finite_number())
      ->capture_default_str();
  command->add_flag("--here", options->here,
                    "Run the head here, on a login node or in a job, until SIGTERM or Ctrl-C");
  command->footer(
      "More agents are asked for while jobs could use more devices; see docs/SLURM.md.\n"
      "Example:\n"
      "  esctl slurm up --nodes 4..16 --partition gpu --agent-option=--gres=gpu:4");
  command->callback([options, &shell] {
    shell.exit_code = finish(up(*options, shell.console), false, shell.console);
  });
}

void add_down(CLI::App& slurm, Shell& shell) {
  auto options = std::make_shared<DownOptions>();
  options->directory = default_directory();
  CLI::App* command = slurm.add_subcommand(
      "down", "End a cluster in good order: its jobs are saved and continue after the next up");
  command->add_option("--dir", options->directory, "Directory of the cluster")
      ->type_name("DIR")
      ->capture_default_str();
  command->callback([options, &shell] {
    shell.exit_code = finish(down(*options, shell.console), false, shell.console);
  });
}

}  // namespace

void add_slurm_command(CLI::App& app, Shell& shell) {
  CLI::App* command =
      app.add_subcommand("slurm", "Run a cluster on nodes of Slurm, which grows and shrinks");
  command->require_subcommand(1);
  add_up(*command, shell);
  add_down(*command, shell);
}

}  // namespace es::actors::esctl

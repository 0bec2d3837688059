#include "actors/kubernetes/core/cluster_objects.h"

#include <algorithm>

namespace es::actors::kubernetes {
namespace {

constexpr const char* kKeys = "/srv/easyscale/keys";
constexpr const char* kState = "/srv/easyscale/state";
constexpr const char* kRun = "/srv/easyscale/run";
// What Kubernetes leaves a pod beyond the grace of its daemon, which ends by itself.
constexpr int kGraceMargin = 20;
constexpr int kHeadGrace = 30;
// How long a pod stays on a node that does not answer before it is given up.
constexpr int kUnreachable = 30;

Json labels(const std::string& cluster, const char* component) {
  return {{"app.kubernetes.io/name", "easyscale"},
          {"app.kubernetes.io/instance", cluster},
          {"app.kubernetes.io/managed-by", kManager},
          {kClusterLabel, cluster},
          {kComponentLabel, component}};
}

Json metadata(const Json& cluster, const std::string& name, const char* component) {
  return {{"name", name},
          {"namespace", text_at(cluster, {"metadata", "namespace"})},
          {"labels", labels(name_of(cluster), component)},
          {"ownerReferences", Json::array({{{"apiVersion", kApiVersion},
                                            {"kind", "EasyScaleCluster"},
                                            {"name", name_of(cluster)},
                                            {"uid", text_at(cluster, {"metadata", "uid"})},
                                            {"controller", true},
                                            {"blockOwnerDeletion", false}}})}};
}

// An environment variable that says something about the pod.
Json pod_variable(const char* name, const char* path) {
  return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", path}}}}}};
}

Json container(const Json& cluster, const Json& of, const char* name, Json command) {
  for (const Json& option : value_at(of, {"options"}, Json::array())) command.push_back(option);
  Json mounts = Json::array({{{"name", "keys"}, {"mountPath", kKeys}, {"readOnly", true}},
                             {{"name", "run"}, {"mountPath", kRun}}});
  for (const Json& mount : value_at(of, {"volumeMounts"}, Json::array())) mounts.push_back(mount);
  Json result{{"name", name},
              {"image", text_at(cluster, {"spec", "image"})},
              {"command", std::move(command)},
              {"env", Json::array({pod_variable("POD_NAME", "metadata.name"),
                                   pod_variable("POD_IP", "status.podIP"),
                                   {{"name", "TMPDIR"}, {"value", kRun}},
                                   {{"name", "HOME"}, {"value", kRun}}})},
              {"volumeMounts", std::move(mounts)},
              {"securityContext",
               {{"allowPrivilegeEscalation", false},
                {"readOnlyRootFilesystem", true},
                {"capabilities", {{"drop", {"ALL"}}}}}}};
  const std::string pull = text_at(cluster, {"spec", "imagePullPolicy"});
  if (!pull.empty()) result["imagePullPolicy"] = pull;
  const Json resources = value_at(of, {"resources"}, Json::object());
  if (!resources.empty()) result["resources"] = resources;
  return result;
}

Json key_volume(const std::string& cluster, const std::vector<std::string>& files) {
  Json items = Json::array();
  for (const std::string& file : files)
    items.push_back({{"key", secret_key(file)}, {"path", file}});
  return {
      {"name", "keys"},
      {"secret",
       {{"secretName", keys_name(cluster)}, {"defaultMode", 0400}, {"items", std::move(items)}}}};
}

// What `template` says is merged over the rest; lists of volumes and tolerations are joined.
Json merged(Json spec, const Json& of) {
  Json more = value_at(of, {"template"}, Json::object());
  for (const char* list : {"volumes", "tolerations"}) {
    const auto found = more.find(list);
    if (found == more.end() || !found->is_array()) continue;
    for (const Json& one : *found) spec[list].push_back(one);
    more.erase(list);
  }
  spec.merge_patch(more);
  return spec;
}

Json pod_spec(Json volumes, Json of_container, int grace) {
  return {{"automountServiceAccountToken", false},
          {"enableServiceLinks", false},
          {"terminationGracePeriodSeconds", grace},
          {"securityContext",
           {{"runAsNonRoot", true},
            {"runAsUser", 65532},
            {"runAsGroup", 65532},
            {"fsGroup", 65532},
            {"fsGroupChangePolicy", "OnRootMismatch"},
            {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
          {"volumes", std::move(volumes)},
          {"containers", Json::array({std::move(of_container)})}};
}

Json run_volume() {
  return {{"name", "run"}, {"emptyDir", Json::object()}};
}

// The volume for checkpoints and saved states, which the head and all agents see at the same path.
void add_checkpoints(const Json& cluster, Json& volumes, Json& box) {
  const std::string claim = text_at(cluster, {"spec", "checkpointClaim"});
  if (claim.empty()) return;
  volumes.push_back({{"name", "checkpoints"}, {"persistentVolumeClaim", {{"claimName", claim}}}});
  box["volumeMounts"].push_back(
      {{"name", "checkpoints"}, {"mountPath", std::string(kState) + "/checkpoints"}});
}

}  // namespace

std::string keys_name(const std::string& cluster) {
  return cluster + "-keys";
}

std::string head_endpoint(const Json& cluster) {
  return "tcp://" + name_of(cluster) + "-head." + text_at(cluster, {"metadata", "namespace"}) +
         ".svc:" + std::to_string(kHeadPort);
}

std::string secret_key(const std::string& path) {
  std::string key = path;
  std::replace(key.begin(), key.end(), '/', '.');
  return key;
}

Json head_service(const Json& cluster) {
  const std::string name = name_of(cluster);
  return {
      {"apiVersion", "v1"},
      {"kind", "Service"},
      {"metadata", metadata(cluster, name + "-head", "head")},
      {"spec",
       {{"clusterIP", "None"},
        // A head that begins again is found before it is ready.
        {"publishNotReadyAddresses", true},
        {"selector", {{kClusterLabel, name}, {kComponentLabel, "head"}}},
        {"ports", Json::array({{{"name", "head"}, {"port", kHeadPort}, {"protocol", "TCP"}}})}}}};
}

Json head_set(const Json& cluster) {
  const std::string name = name_of(cluster);
  const Json head = value_at(cluster, {"spec", "head"}, Json::object());
  const std::string storage = text_at(head, {"storage"});
  const std::string port = std::to_string(kHeadPort);
  Json box = container(
      cluster, head, "head",
      {"easyscaled", "--head", "--may-grow", "--node", "head", "--devices", "none", "--listen",
       "tcp://$(POD_IP):" + port, "--address", "$(POD_IP)", "--state", kState, "--keys", kKeys});
  box["volumeMounts"].push_back({{"name", "state"}, {"mountPath", kState}});
  // It is ready when it answers.
  const std::string ask = "exec esctl ps --head tcp://$POD_IP:" + port + " --keys " + kKeys;
  box["readinessProbe"] = {{"exec", {{"command", Json::array({"sh", "-c", ask})}}},
                           {"periodSeconds", 5},
                           {"timeoutSeconds", 10}};
  Json volumes =
      Json::array({key_volume(name, {"server.key", "server.pub", "client.key", "node.key",
                                     "authorized/self.pub", "authorized/admin.pub"}),
                   run_volume()});
  if (storage.empty()) volumes.push_back({{"name", "state"}, {"emptyDir", Json::object()}});
  add_checkpoints(cluster, volumes, box);
  Json set{
      {"apiVersion", "apps/v1"},
      {"kind", "StatefulSet"},
      {"metadata", metadata(cluster, name + "-head", "head")},
      {"spec",
       {{"replicas", 1},
        {"serviceName", name + "-head"},
        {"selector", {{"matchLabels", {{kClusterLabel, name}, {kComponentLabel, "head"}}}}},
        {"template",
         {{"metadata", {{"labels", labels(name, "head")}}},
          {"spec", merged(pod_spec(std::move(volumes), std::move(box), kHeadGrace), head)}}}}}};
  if (storage.empty()) return set;
  Json claim{{"accessModes", Json::array({"ReadWriteOnce"})},
             {"resources", {{"requests", {{"storage", storage}}}}}};
  if (head.contains("storageClass")) claim["storageClassName"] = head["storageClass"];
  set["spec"]["volumeClaimTemplates"] =
      Json::array({{{"metadata", {{"name", "state"}}}, {"spec", std::move(claim)}}});
  return set;
}

Json agent_pod(const Json& cluster, const Json& group, std::uint32_t index) {
  const std::string name = name_of(cluster), of = text_at(group, {"name"});
  const int grace = value_at(group, {"graceSeconds"}, 25);
  Json command{"easyscaled",
               "--join",
               head_endpoint(cluster),
               "--node",
               "$(POD_NAME)",
               "--devices",
               text_at(group, {"devices"}),
               "--address",
               "$(POD_IP)",
               "--keys",
               kKeys,
               "--run-dir",
               kRun,
               "--rescue",
               std::string(kRun) + "/rescue",
               "--grace",
               std::to_string(grace)};
  if (value_at(group, {"spot"}, false)) command.push_back("--spot");
  Json box = container(cluster, group, "agent", std::move(command));
  // Workers share gradients there, and a container has 64 MiB of it otherwise.
  box["volumeMounts"].push_back({{"name", "memory"}, {"mountPath", "/dev/shm"}});
  Json volumes = Json::array(
      {key_volume(name, {"node.key", "server.key", "server.pub", "authorized/self.pub"}),
       run_volume(),
       {{"name", "memory"}, {"emptyDir", {{"medium", "Memory"}}}}});
  add_checkpoints(cluster, volumes, box);
  Json spec = pod_spec(std::move(volumes), std::move(box), grace + kGraceMargin);
  spec["restartPolicy"] = "OnFailure";
  for (const char* taint : {"unreachable", "not-ready"})
    spec["tolerations"].push_back({{"key", std::string("node.kubernetes.io/") + taint},
                                   {"operator", "Exists"},
                                   {"effect", "NoExecute"},
                                   {"tolerationSeconds", kUnreachable}});
  Json pod{{"apiVersion", "v1"},
           {"kind", "Pod"},
           {"metadata", metadata(cluster, name + "-" + of + "-" + std::to_string(index), "agent")},
           {"spec", merged(std::move(spec), group)}};
  pod["metadata"]["labels"][kGroupLabel] = of;
  return pod;
}

}  // namespace es::actors::kubernetes

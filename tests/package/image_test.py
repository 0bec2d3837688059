#!/usr/bin/env python3
"""The OCI image is small, contains no toolkit, and runs a job, made and run by the user of this test,
who need not be root.

    image_test.py ESCTL SOURCE_ROOT
"""
import os
import subprocess

from package_case import PackageCase, main

MEGABYTES_MAX = 150
PROGRAMS = ["buildah", "strip"]
# $1: a directory for the storage; $2: the archive. A process of another user than root could not
# reach the storage, so the programs run as root of the container.
RUN = r"""
set -eu
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
in_storage() { buildah --root "$1/s" --runroot "$1/r" "${@:2}"; }
# By itself a newer buildah asks for more open files and processes than a user may have.
limits=(--ulimit nofile=1024 --ulimit nproc=4096)
container=$(in_storage "$1" from "${limits[@]}" "oci-archive:$2" | tail -n 1)
in_storage "$1" run --user 0 "$container" -- /usr/bin/easyscaled --version
in_storage "$1" run --user 0 --env HOME=/tmp "$container" -- \
  /usr/bin/esctl run /usr/share/easyscale/jobs/tiny_neumf.toml --steps 20 --quiet
root=$(in_storage "$1" mount "$container")
echo "megabytes: $(du -sm "$root" | cut -f 1)"
find "$root" -name '*cudart*' -o -name '*cublas*' -o -name 'nvcc*'
in_storage "$1" umount "$container" >/dev/null
rm -rf "$1/s" "$1/r"
"""


class Image(PackageCase):
    programs = PROGRAMS

    def done(self, *words, **environment):
        ended = subprocess.run([str(word) for word in words], text=True, capture_output=True,
                               env={**os.environ, **environment})
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout

    def test_it_runs_a_job(self):
        self.done(self.source / "scripts/package", "image", ES_BUILD=str(self.esctl.parents[2]),
                  ES_DIST=str(self.directory))
        (archive,) = self.directory.glob("*.oci.tar")
        unshare = [] if os.getuid() == 0 else ["buildah", "unshare"]
        shown = self.done(*unshare, "bash", "-c", RUN, "run", self.directory, archive)
        self.assertIn("easyscaled 0.", shown)
        self.assertIn("20/20", shown)
        size, *toolkit = shown.split("megabytes: ")[1].splitlines()
        self.assertLess(int(size), MEGABYTES_MAX)
        self.assertEqual(toolkit, [])


if __name__ == "__main__":
    main()

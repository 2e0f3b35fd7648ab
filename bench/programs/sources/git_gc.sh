# Packs a repository, checks it, and prints the names of its objects.
set -eu
cd repository
export GIT_CONFIG_NOSYSTEM=1
git config --global --add safe.directory '*'
git -c pack.threads=2 gc --quiet --aggressive --prune=now
git fsck --full --strict --no-progress
echo "objects $(git rev-list --objects --all | sort | sha256sum | cut -c 1-16) of $(git rev-list --objects --all | wc -l)"
git count-objects -v | grep -E '^(count|in-pack|packs|garbage)'
git log --format=%H | sha256sum

#!/usr/bin/env bash
# Add build/site as one version to the branch gh-pages: push_site.sh VERSION
set -euo pipefail
version=$1
folder=$(mktemp -d)
trap 'git worktree remove --force "$folder"' EXIT
if git fetch --depth 1 origin gh-pages; then
  git worktree add --detach "$folder" FETCH_HEAD
else
  git worktree add --detach "$folder" HEAD
  git -C "$folder" checkout --orphan gh-pages
  git -C "$folder" rm -rfq .
fi
python3 scripts/publish_site.py build/site "$folder" "$version"
git -C "$folder" add -A
if git -C "$folder" diff --cached --quiet; then
  exit 0
fi
git -C "$folder" -c user.name=site -c user.email=site@localhost commit -qm "Documentation of $version"
git -C "$folder" push origin HEAD:gh-pages

#!/usr/bin/env bash
# make release: everything that is published with a version, in BUILD/release: the source archive, the bundle of this
# machine, and SHA256SUMS over both.
#
#     packaging/release.sh BUILD
#
# Refuses a tree with changes that are not committed, and a version that CHANGELOG.md or debian/changelog does not describe,
# or whose tag is another commit. MAKE names the make program; settings such as CUDA=1 reach it through MAKEFLAGS.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 out=$1/release

fail() {
    echo "release: $1" >&2
    exit 1
}

version=$(sed -nE 's/^#define VERSION "(.*)"$/\1/p' tui/main.c)
name=anneal-$version
[ -e .git ] || fail 'this is no git checkout'
[ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed (git status lists them)"
grep -qE "^## \[${version//./\\.}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md ||
    fail "CHANGELOG.md has no entry \"## [$version] - DATE\" (tui/main.c says that the version is $version)"
[ "$(sed -nE '1s/^anneal \((.*)\) .*/\1/p' debian/changelog)" = "$version" ] ||
    fail "the newest entry of debian/changelog is not for version $version"
if tagged=$(git rev-parse -q --verify "refs/tags/v$version^{commit}"); then
    [ "$tagged" = "$(git rev-parse HEAD)" ] || fail "the tag v$version is another commit (raise the version in tui/main.c)"
fi

${MAKE:-make} --no-print-directory bundle
rm -rf "$out"
mkdir -p "$out"
cp "$build/$name-linux-$(uname -m).tar.gz" "$out/"
git archive --format=tar --prefix="$name/" HEAD | gzip -9n >"$out/$name.tar.gz"
tar -xOzf "$out/$name.tar.gz" "$name/packaging/commit" | grep -q "^$(git rev-parse HEAD)$" ||
    fail 'the source archive does not name its commit (see .gitattributes)'
(cd "$out" && sha256sum -- *.tar.gz >SHA256SUMS)
cat "$out/SHA256SUMS"
echo "$out is complete. If it is published: git tag -a v$version -m 'anneal $version' && git push origin v$version"

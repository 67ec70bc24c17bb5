"""What copies trees, packs and unpacks them: cp, rsync, tar, unzip. They keep permissions and times."""

import pytest

from tests.programs.sides import Sides

pytestmark = [pytest.mark.mount, pytest.mark.programs]

SOURCE = """
    mkdir -p $T/src/deep; echo a > $T/src/a; echo b > $T/src/deep/b
    chmod 600 $T/src/a; chmod 750 $T/src/deep
    touch -d 2020-01-02T03:04:05.678 $T/src/a; touch -d 2021-01-02T03:04:05 $T/src/deep/b
"""


def test_cp(sides: Sides) -> None:
    """In, within and out; a second copy changes nothing, a changed source is one version."""
    sides.run(
        SOURCE
        + """
        cp -a $T/src dst; diff -r $T/src dst; stat -c '%n %a %y' dst/a dst/deep/b
        cp -a $T/src/. dst
        cp -au dst dst2; cp -a dst2 $T/back; diff -r $T/src $T/back; stat -c '%n %a %y' $T/back/a
        echo changed > $T/src/a; cp -v $T/src/a dst/a; cp -v --backup=simple $T/src/deep/b dst/a; ls -A dst
        """
    )
    assert sorted(sides.history()[:4], key=lambda step: str(step[2])) == [
        (step[0], "created", path, text)
        for step, path, text in zip(
            sorted(sides.history()[:4], key=lambda step: str(step[2])),
            ["/dst/a", "/dst/deep/b", "/dst2/a", "/dst2/deep/b"],
            ["a\n", "b\n", "a\n", "b\n"],
            strict=True,
        )
    ]
    (memory,) = {step[0] for step in sides.history() if step[2] == "/dst/a"}
    assert sides.history()[4:] == [
        (memory, "modified", "/dst/a", "changed\n"),
        (memory, "modified", "/dst/a", "b\n"),
    ]


def test_cp_of_a_symbolic_link_is_refused_and_the_rest_copied(sides: Sides) -> None:
    """Known: a store holds no links."""
    done = sides.mount.run("mkdir $T/src; ln -s a $T/src/link; echo a > $T/src/a; cp -a $T/src .")
    assert done.status == 1
    assert done.errors == "cp: cannot create symbolic link './src/link': Operation not permitted\n"
    assert sides.history() == [("a", "created", "/src/a", "a\n")]
    assert not done.output


def test_rsync(sides: Sides) -> None:
    """Only what changed is sent, and is one version of the memory that was there."""
    said = sides.run(
        SOURCE
        + """
        rsync -ai $T/src/ dst; echo again; rsync -ai $T/src/ dst
        echo other > $T/src/a; rsync -ai $T/src/ dst
        echo OTHER > $T/src/a; touch -r dst/a $T/src/a; echo by time; rsync -ai $T/src/ dst
        echo by sum; rsync -aci $T/src/ dst
        seq 3 >> $T/src/deep/b; touch -d 2022-01-02 $T/src/deep/b; rsync -ai --inplace $T/src/ dst
        echo 4 >> $T/src/deep/b; touch -d 2023-01-02 $T/src/deep/b; rsync -ai --append-verify $T/src/ dst
        echo new > $T/src/deep/b; rsync -ai --backup $T/src/ dst; ls -A dst/deep
        rsync -aOi dst/ $T/back; rsync -acOi $T/back/ dst
        rm $T/src/a; rsync -aOi --delete --exclude '*~' $T/src/ dst
        """
    )
    assert "again\n>f.st...... a\n" in said  # the second run sent nothing
    assert "by time\nby sum\n>fc........ a\n" in said
    (a,) = {step[0] for step in sides.history() if step[2] == "/dst/a"}
    (b,) = {step[0] for step in sides.history() if step[2] == "/dst/deep/b"}
    assert [step for step in sides.history() if step[0] == a] == [
        (a, "created", "/dst/a", "a\n"),
        (a, "modified", "/dst/a", "other\n"),
        (a, "modified", "/dst/a", "OTHER\n"),
        (a, "deleted", "/dst/a", None),
    ]
    assert [step for step in sides.history() if step[0] == b] == [
        (b, "created", "/dst/deep/b", "b\n"),
        (b, "modified", "/dst/deep/b", "b\n1\n2\n3\n"),
        (b, "modified", "/dst/deep/b", "b\n1\n2\n3\n4\n"),
        (b, "modified", "/dst/deep/b", "new\n"),
    ]
    assert {step[0] for step in sides.history()} == {a, b}


def test_tar(sides: Sides) -> None:
    """No "file changed as we read it". Unpacking replaces, which is a new memory, or overwrites."""
    sides.run(
        """
        mkdir -p d/e; seq 5 > d/a; echo b > d/e/b; touch -d 2020-01-02T03:04:05 d/a d/e/b; chmod 600 d/e/b
        tar --sort=name -cvf $T/x.tar d; tar -dvf $T/x.tar
        echo more >> d/e/b; tar -xvf $T/x.tar d/e/b
        echo more >> d/e/b; tar --overwrite -xvpf $T/x.tar d/e/b
        tar -xOf $T/x.tar d/a; tar -C / -tf $T/x.tar
        tar -cz d | tar -tz | sort
        mkdir out; tar -C out -xpf $T/x.tar; stat -c '%n %a %y' out/d/a out/d/e/b
        """
    )
    assert sides.history() == [
        ("a", "created", "/d/a", "1\n2\n3\n4\n5\n"),
        ("b", "created", "/d/e/b", "b\n"),
        ("b", "modified", "/d/e/b", "b\nmore\n"),
        ("b", "deleted", "/d/e/b", None),
        ("c", "created", "/d/e/b", "b\n"),
        ("c", "modified", "/d/e/b", "b\nmore\n"),
        ("c", "modified", "/d/e/b", "b\n"),
        ("d", "created", "/out/d/a", "1\n2\n3\n4\n5\n"),
        ("e", "created", "/out/d/e/b", "b\n"),
    ]


def test_an_archive_in_a_store_is_refused(sides: Sides) -> None:
    """Known: a store holds text. What packs says so, and leaves nothing."""
    sides.site.expected_log.append("dropped d.tgz: the content is not UTF-8 text")
    done = sides.mount.run("mkdir d; echo a > d/a; tar -czf d.tgz d")
    assert done.status == 2
    assert "Invalid or incomplete multibyte or wide character" in done.errors
    assert sides.history() == [("a", "created", "/d/a", "a\n")]
    sides.saved()


def test_unzip(sides: Sides) -> None:
    """unzip removes what it overwrites, so that is a new memory."""
    sides.run(
        """
        mkdir d; seq 20 > d/a; echo b > d/b; touch -d '2020-01-02 03:04:06' d/a
        zip -q $T/x.zip d/ d/a d/b; unzip -tq $T/x.zip
        rm d/a; unzip -n $T/x.zip
        echo other > d/b; unzip -o $T/x.zip d/b; unzip -p $T/x.zip d/b; unzip -l $T/x.zip d/a | wc -l
        """
    )
    text = "".join(f"{number}\n" for number in range(1, 21))
    assert sides.history() == [
        ("a", "created", "/d/a", text),
        ("b", "created", "/d/b", "b\n"),
        ("a", "deleted", "/d/a", None),
        ("c", "created", "/d/a", text),
        ("b", "modified", "/d/b", "other\n"),
        ("b", "deleted", "/d/b", None),
        ("d", "created", "/d/b", "b\n"),
    ]

"""The words and sentences of the story grammar: an own text, in the manner of stories for small children, for :mod:`iclbook.tasks.stories`."""

from __future__ import annotations

from .story_grammar import END


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


HE = _words(
    "tom ben max sam leo tim jack finn noah luke hugo otto paul emil karl theo adam eli ian omar felix oscar ivan nico dan"
)
SHE = _words(
    "anna lily mia eva zoe emma ella nora ruby rosa ida clara lucy amy ivy olga elsa maya sara lena nina tess hana uma vera"
)
NAMES = tuple(name for pair in zip(HE, SHE, strict=True) for name in pair)

CLASSES = {
    "name": NAMES,
    "kind": _words(
        "rabbit bear owl mouse otter duck boy girl hen elephant frog ant goat badger hedgehog cat dog pony ape squirrel turtle"
        " eagle lamb deer beaver iguana penguin goose"
    ),
    "trait": _words(
        "kind brave old shy eager clever quiet funny tiny cheery gentle lazy busy odd wise young proud careful"
        " adventurous friendly"
    ),
    "place": _words(
        "forest river market garden hill beach farm bridge castle meadow lake school harbour mill orchard cave village park"
        " station island valley barn museum tower field well pond library bakery zoo"
    ),
    "thing": _words(
        "ball kite drum apron book umbrella lantern hat boat ring doll spoon basket blanket bell map egg"
        " scarf cup candle chair ladder acorn flute clock mirror box key coat pillow ticket wagon bucket puzzle shell"
        " feather instrument mask whistle"
    ),
    "colour": _words("red blue green yellow white black purple golden silver pink brown ivory amber"),
    "act": _words(
        "sing dance swim read paint climb run cook draw jump skate row fish knit juggle count build hum skip"
    ),
    "feeling": _words(
        "sad afraid worried lonely tired angry upset sorry nervous gloomy cold confused ashamed unhappy hurt"
    ),
    "mood": _words("happy glad cheerful calm merry joyful content hopeful"),
    "way": _words(
        "slowly loudly quietly quickly bravely gently carefully boldly softly eagerly patiently wildly"
    ),
    "food": _words(
        "soup bread cake cheese pie honey apples nuts berries rice porridge jam pancakes carrots pears milk plums noodles"
    ),
    "tool": _words("glue string tape wire rope clay wool wax nails thread"),
    "look": _words("shiny soft round heavy pretty lovely strange smooth bright"),
    "time": _words("morning evening summer winter spring autumn sunday monday night week"),
}

REGISTERS = {
    "hero": "name",
    "friend": "name",
    "kind": "kind",
    "fkind": "kind",
    "trait": "trait",
    "ftrait": "trait",
    "place": "place",
    "far": "place",
    "object": "thing",
    "thing": "thing",
    "gift": "thing",
    "colour": "colour",
    "act": "act",
    "feeling": "feeling",
    "mood": "mood",
    "way": "way",
    "food": "food",
    "tool": "tool",
    "look": "look",
    "time": "time",
}

_MALE = frozenset(HE)
FORMS = {
    prefix + form: (register, {name: form if name in _MALE else other for name in NAMES})
    for prefix, register in (("", "hero"), ("f", "friend"))
    for form, other in (("he", "she"), ("him", "her"), ("his", "her"))
}

#: A story's length varies with the optional kinds, and with it the distance back to what is mentioned again.
GRAPH = {
    "open": {"habit": 2, "scene": 3},
    "habit": {"scene": 1},
    "scene": {"want": 1},
    "want": {"detail": 2, "trouble": 3},
    "detail": {"trouble": 1},
    "trouble": {"feel": 2, "attempt": 3},
    "feel": {"attempt": 1},
    "attempt": {"again": 3, "help": 4, "fail": 1},
    "again": {"help": 1},
    "fail": {"help": 1},
    "help": {"speech": 2, "result": 3},
    "speech": {"result": 1},
    "result": {"joy": 3, "moral": 2},
    "joy": {"moral": 1},
    "moral": {END: 1},
}
#: The shortest way through it, for the small profile.
SHORT_GRAPH = {
    "open": {"scene": 1},
    "scene": {"want": 1},
    "want": {"trouble": 1},
    "trouble": {"help": 1},
    "help": {"result": 1},
    "result": {"moral": 1},
    "moral": {END: 1},
}

TEMPLATES = {
    "open": (
        "once upon a time there was an+trait +trait +kind named +hero .",
        "there once lived an+trait +trait +kind called +hero .",
        "long ago an+trait +trait +kind named +hero lived alone .",
        "this is the story of +hero the +trait +kind .",
        "in a small house lived an+trait +trait +kind called +hero .",
    ),
    "habit": (
        "every +time @hero liked to +act .",
        "@he loved to +act more than anything .",
        "most of all @hero liked to +act +way .",
        "@hero could +act very +way .",
    ),
    "scene": (
        "one day @hero went to the +place with +friend the +fkind .",
        "@he met +friend the +fkind near the +place .",
        "in the +place @hero met an+ftrait +ftrait +fkind called +friend .",
        "at the +place lived +friend , an+ftrait +ftrait +fkind .",
    ),
    "want": (
        "@hero had an+colour +colour +object and kept it close .",
        "that day @hero found an+colour +colour +object in the grass .",
        "@he wanted to show @friend a new +colour +object .",
        "@friend gave @hero an+colour +colour +object .",
    ),
    "detail": (
        "the @object was @colour and very +look .",
        "@friend liked the @colour @object too .",
        "it came from the +far far away .",
        "@he carried the @object everywhere .",
    ),
    "trouble": (
        "trouble=lost: but then the @object was gone .",
        "trouble=lost: suddenly @hero could not find the @object .",
        "trouble=broke: but then the @object fell and broke .",
        "trouble=broke: suddenly the @colour @object broke in two .",
        "trouble=storm: but then a storm blew the @object away .",
        "trouble=storm: suddenly dark clouds came over the @place .",
        "trouble=stuck: but then the @object got stuck in a tree .",
        "trouble=stuck: suddenly the @object slid under a rock .",
        "trouble=thief: but then a sly fox took the @object .",
        "trouble=thief: suddenly a thief ran off with the @object .",
        "trouble=quarrel: but then @friend and @hero began to fight .",
        "trouble=quarrel: suddenly @friend did not want to play .",
        "trouble=dark: but then it got dark in the @place .",
        "trouble=dark: suddenly there was no light at the @place .",
        "trouble=hungry: but then @hero grew very hungry .",
        "trouble=hungry: suddenly all the food was eaten .",
    ),
    "feel": (
        "@hero felt +feeling and sat down .",
        "@he was so +feeling that @he cried .",
        "now @hero was very +feeling .",
        "poor @hero looked +feeling .",
    ),
    "attempt": (
        "lost: first @he looked behind an+thing +thing .",
        "lost: @hero searched the @place +way .",
        "broke: first @he tried to fix it with +tool .",
        "broke: @hero held the pieces together +way .",
        "storm: first @he hid behind an+thing +thing .",
        "storm: @hero ran after the wind +way .",
        "stuck: first @he pulled hard with some +tool .",
        "stuck: @hero called out for help +way .",
        "thief: first @he followed the tracks with an+thing +thing .",
        "thief: @hero shouted at the thief +way .",
        "quarrel: first @he walked away with the @object .",
        "quarrel: @hero tried to speak +way .",
        "dark: first @he looked for an+thing +thing .",
        "dark: @hero walked on +way .",
        "hungry: first @he looked for some +food .",
        "hungry: @hero asked for +food +way .",
    ),
    "again": (
        "but that did not work at all .",
        "then @he tried once more , very +way .",
        "@friend watched and shook @fhis head .",
        "again and again @he failed .",
    ),
    "fail": (
        "@he almost gave up and felt +feeling .",
        "it seemed there was nothing to do .",
        "@hero sat by the @place and cried .",
    ),
    "help": (
        "luckily @friend the @fkind came by to help .",
        "just then @friend brought some +food and an idea .",
        "so @hero asked @friend for help .",
        "lost: soon @friend saw something @colour near the @place .",
        "broke: soon @friend came with +tool and the missing piece .",
        "storm: soon @friend led @him to a warm house .",
        "stuck: soon @friend came with some +tool .",
        "thief: soon @friend ran after the thief too .",
        "quarrel: soon @friend came back to the @place .",
        "dark: soon @friend came with a bright lamp .",
        "hungry: soon @friend came with a basket of +food .",
    ),
    "speech": (
        '" do not be +feeling , " said @friend .',
        '" we can do it together , " said the @fkind .',
        '@friend asked , " shall we try , @hero ? "',
        '" thank you , @friend , " said @hero +way .',
    ),
    "result": (
        "lost: at last they found the @colour @object .",
        "lost: in the end the @object was behind an+thing +thing .",
        "broke: at last the @object was whole again .",
        "broke: in the end they made a +look new @object .",
        "storm: at last the sun came out over the @place .",
        "storm: in the end the wind brought the @object back .",
        "stuck: at last the @object came free .",
        "stuck: in the end they pulled out the @colour @object .",
        "thief: at last the thief gave the @object back .",
        "thief: in the end they caught the thief near the @place .",
        "quarrel: at last @hero and @friend hugged .",
        "quarrel: in the end they shared the @colour @object .",
        "dark: at last they saw the way out of the @place .",
        "dark: in the end the moon showed @him the path .",
        "hungry: at last @hero and @friend ate +food .",
        "hungry: in the end they had enough +food .",
    ),
    "joy": (
        "@hero thanked @friend with an+gift +gift .",
        "they laughed and ate +food .",
        "that night they could +act until late .",
        "the @kind was +mood again .",
    ),
    "moral": (
        "lost: the moral is to take care of what you have .",
        "lost: @hero learned to look twice .",
        "broke: the moral is that broken things can be mended .",
        "broke: @hero learned to be patient .",
        "storm: the moral is that no storm lasts forever .",
        "storm: @hero learned to wait for the sun .",
        "stuck: the moral is to pull together .",
        "stuck: @hero learned that friends make us strong .",
        "thief: the moral is never to take what is not yours .",
        "thief: @hero learned to be brave .",
        "quarrel: the moral is to say sorry .",
        "quarrel: @hero learned that sharing is fun .",
        "dark: the moral is not to fear the dark .",
        "dark: @hero learned to bring a light .",
        "hungry: the moral is to share your food .",
        "hungry: @hero learned to pack a lunch .",
    ),
}

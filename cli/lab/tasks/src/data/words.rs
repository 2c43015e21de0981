//! Words that keys and lists are made of.

use std::sync::OnceLock;

use super::pairs::Pairs;

/// Lists of words.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) nouns: Vec<String>,
    pub(crate) adjectives: Vec<String>,
    pub(crate) verbs: Vec<String>,
    pairs: OnceLock<Pairs>,
}

impl Words {
    pub(super) fn new(nouns: Vec<String>, adjectives: Vec<String>, verbs: Vec<String>) -> Words {
        Words { nouns, adjectives, verbs, pairs: OnceLock::new() }
    }

    /// Our own lists, for those who do not have wonderwords.
    pub(super) fn ours() -> Words {
        let [nouns, adjectives, verbs] = [NOUNS, ADJECTIVES, VERBS]
            .map(|words| words.split_ascii_whitespace().map(str::to_owned).collect());
        Words::new(nouns, adjectives, verbs)
    }

    /// All words, sorted and without duplicates.
    pub(crate) fn all(&self) -> Vec<&str> {
        let mut all: Vec<&str> =
            [&self.nouns, &self.adjectives, &self.verbs].into_iter().flatten().map(String::as_str).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// All pairs of an adjective and a noun.
    pub(crate) fn pairs(&self) -> &Pairs {
        self.pairs.get_or_init(|| Pairs::new(&self.adjectives, &self.nouns))
    }
}

/// Nouns, with a space between.
const NOUNS: &str = "\
    acorn actor airport album alley anchor ankle answer antenna apple apron arch arena armchair arrow \
    artist attic author autumn axe badge bag baker balcony ball banana bandage banner bark barn barrel \
    basin basket bath battery beach beam bean bear beard beaver bed bee bell belt bench berry bicycle \
    bird biscuit blanket blossom board boat bone book boot bottle boulder bowl box branch bread breakfast \
    brick bridge broom brother brush bucket building bulb bus bush butcher butter button cabin cable \
    cactus cage cake calendar camel camera camp canal candle canoe canvas cape captain car card carpenter \
    carpet carrot cart castle cat cave ceiling cellar cereal chain chair chalk channel chapel cheese \
    cherry chess chest chicken chimney church cinema circle city clay cliff clock cloth cloud clown coach \
    coal coast coat coconut coffee coin collar comb comet compass cook copper cork corn corner cottage \
    cotton couch cousin cow crab cradle crane crayon cream creek crew cricket crow crown crystal cup \
    cupboard curtain cushion daisy dance dawn deck deer dentist desert desk diamond diary dinner dish \
    doctor dog doll dolphin donkey door dove dragon drawer dream dress driver drum duck dust eagle ear \
    earth echo editor egg elbow elephant elevator engine envelope evening eye fabric factory falcon \
    family farm farmer feather fence ferry field finger fireplace fish flag flame flashlight flock floor \
    flour flower flute fog folder forest fork fountain fox frame friend frog fruit furnace galaxy gallery \
    garage garden garlic gate ghost giant giraffe glass glove goat goose grain grape grass guitar gull \
    hair hallway hammer hammock hand harbor harp hat hawk hedge helmet hen hill hinge honey hook horn \
    horse hospital hotel house husband ice ink inn insect iron island jacket jar jeep jelly jewel journal \
    judge jug juice jungle kettle key king kitchen kite kitten knee knife knot ladder lake lamb lamp \
    lantern lawn lawyer leaf leather lemon letter lettuce library lid lily lion lizard lobster lock log \
    lunch magnet mailbox mango map maple marble market mask mast meadow medal melon menu merchant metal \
    mill miner mirror mitten monkey month moon moose morning moss moth motor mountain mouse mouth mud \
    museum mushroom mustard napkin neck necklace needle neighbor nephew nest net nickel niece night \
    noodle nose notebook novel nurse nut oak oar ocean office olive onion opera orange orchard organ \
    otter oven owl ox oyster paddle page paint painter palace palm pan panda paper parade parcel park \
    parrot parsley passenger path pattern peach peanut pear pearl pebble pen pencil penguin pepper piano \
    picnic picture pie pig pigeon pillow pilot pine pipe planet plank plant plate plaza plum pocket poem \
    pond pony porch potato potter prince pudding puddle pump pumpkin puppet puppy purse puzzle pyramid \
    quarry queen quilt rabbit radio raft rail rain rake raven reef ribbon rice ring river road robin \
    robot rock rocket roof room root rope rose rubber rug ruler sack saddle sail sailor salad salmon salt \
    sand sandal sauce saw scarf school scissors screen sea seal seat seed shadow shark sheep shelf shell \
    shepherd ship shirt shoe shop shore shoulder shovel shower signal silk silver singer sister skirt sky \
    sled sleeve smoke snail snake snow soap sock sofa soil soldier soup spider sponge spoon spring square \
    squirrel stable stage stair stamp star station statue steam steel stone store storm stove straw \
    street string student sugar suitcase summer sun swan sweater swing sword syrup table tailor tape \
    teacher teapot tent theater thimble thread throat thumb thunder ticket tiger tile toast tomato tongue \
    tooth torch towel tower town tractor train tray treasure tree truck trumpet trunk tulip tunnel turkey \
    turtle umbrella uncle valley van vase velvet village vinegar violet violin voice volcano wagon waiter \
    wall wallet walnut wasp watch water wave wax weaver wheat wheel whistle widow willow wind window wine \
    wing winter wolf wood wool worm writer yard yarn zebra";

/// Adjectives.
const ADJECTIVES: &str = "\
    able absent active afraid aged alert alive amazing ample ancient angry annual anxious arid average \
    awake aware awful awkward bald bare basic beautiful bent big bitter black blank blind blue blunt bold \
    brave brief bright brisk broad broken brown bumpy busy calm careful careless central certain charming \
    cheap cheerful chief chilly civil clean clear clever close cloudy clumsy coarse cold colorful common \
    complete cool correct costly cozy crazy creamy crisp crooked crowded cruel curious curly current \
    curved daily damp dangerous dark dear deep delicate dense different dim direct dirty distant dizzy \
    double dry dull dusty eager early eastern easy elastic elegant empty endless equal even exact \
    excellent exotic extra faint fair faithful familiar famous fancy far fast fat few fierce final fine \
    firm fit flat flexible foggy fond foolish foreign formal fragile free frequent fresh friendly frosty \
    frozen full funny furry future generous gentle giant glad global glorious golden good graceful grand \
    grateful gray greasy great green grim hairy handsome handy happy hard harmless harsh hasty healthy \
    heavy helpful hidden high hollow honest horrible hot huge humble humid hungry icy ideal idle \
    important inner innocent intense jealous jolly juicy junior just keen kind large last late lazy leafy \
    lean left legal light likely little lively local lonely long loose loud lovely low loyal lucky mad \
    magic main major marine massive mature mean medium mellow merry mighty mild minor misty mobile modern \
    modest moist muddy musical mute naive narrow nasty native natural nearby neat nervous new nice noble \
    noisy normal northern noted novel numb obvious odd official oily old only open ordinary outer oval \
    pale patient peaceful perfect pink plain playful pleasant plump polite poor popular portable possible \
    powerful precious present pretty prickly private proper proud public pure purple quick quiet rainy \
    random rapid rare raw ready real recent red regular reliable remote rich right rigid ripe roasted \
    robust rocky rotten rough round royal rude rural rusty sad safe salty sandy scarce secret selfish \
    senior sensible serious shaggy shallow sharp shiny short shy silent silky silly simple single \
    skillful sleepy slender slim slippery slow small smart smooth snowy soft solar solid sore sour \
    southern spare special spicy spotless stale steady steep sticky stiff still stormy straight strange \
    strict striped strong stubborn sturdy sudden sunny superb sure sweet swift tall tame tasty tender \
    tense terrible thick thin thirsty thoughtful tidy tight tiny tired tough tropical true typical ugly \
    unusual upper upset urban urgent useful useless usual vague valid vast velvety violet visible vital \
    vivid warm wary watery weak wealthy weary weekly weird western wet white whole wicked wide wild \
    willing windy wise witty wonderful wooden worthy wrong yellow young yummy";

/// Verbs.
const VERBS: &str = "\
    accept admire admit advise agree aim allow announce annoy appear apply approve argue arrange arrive \
    ask attach attack attend avoid bake balance bathe beg begin behave believe belong bend blame bless \
    blink boil borrow bounce bow breathe bring build burn bury buy call calm camp care carry carve catch \
    cause celebrate change chase cheer chew choose chop claim clap climb collect combine come command \
    compare compete complain confess confuse connect consider contain continue copy correct cough count \
    cover crack crash crawl create creep cross crush cry cure cut damage dare decide decorate deliver \
    depend describe deserve destroy develop dig dip disagree discover discuss dive divide doubt drag draw \
    drift drink drip drive drop drown dry earn eat edit educate embrace employ enjoy enter escape examine \
    excite excuse exist expand expect explain explode explore extend fade fail fall fasten feed feel \
    fetch fight fill find finish fix float flow fly fold follow forbid force forget forgive form freeze \
    fry gather gaze give glow glue go grab greet grin grow guard guess guide handle hang happen harvest \
    hate haunt heal hear heat help hesitate hide hit hold hope hover hug hum hunt hurry hurt ignore \
    imagine impress improve include increase inform inject injure insist inspect instruct intend invent \
    invite itch jog join joke jump keep kick kiss kneel knit knock know label land laugh launch lead lean \
    leap learn leave lend lick lift like listen live load look lose love make manage march mark marry \
    measure meet melt memorize mend milk mix moan mourn move multiply murmur need nod notice obey object \
    observe obtain occur offer open order overflow owe own pack paddle pardon pass paste pause pay peel \
    perform permit pick pinch place plan play plead please polish pour practice praise pray preach prefer \
    prepare press pretend prevent print produce promise protect prove provide pull punish push question \
    queue quit race raise reach read realize receive recognize record reduce reflect refuse regret reject \
    relax release rely remain remember remind remove repair repeat replace reply rescue rest return \
    reveal rhyme ride rise roar roll rub ruin run rush satisfy save scatter scold scratch scream scrub \
    search seem sell send separate serve settle sew shake share sharpen shave shelter shine shiver shock \
    shout show shrink shrug shut sigh sing sink sip sit skate skip slam sleep slide slip smash smell \
    smile snatch sneeze sniff snore soak solve sort speak spell spend spill spin split spoil spray spread \
    sprout squeeze stain stand stare start stay steal steer step stir stitch stop stretch strip stroke \
    stumble succeed suffer suggest supply support suppose surprise surround suspect swallow swear sweep \
    swim switch take talk tap taste teach tear tease tell tempt thank think throw tickle tie touch trace \
    trade trap travel treat tremble trick trip trust try tug tumble turn twist unfold unite unlock unpack \
    use vanish visit vote wait wake walk wander want warn wash waste wave wear weep weigh welcome whirl \
    whisper win wink wipe wish wonder work worry wrap wreck wrestle write yawn yell zip";

//! Colours: a light and a dark look of the same pictures.
//!
//! Lines are from Okabe and Ito's palette, which people with colour-blindness can tell apart. On
//! each ground those are chosen that stand out from it by 3 to 1 at least (WCAG 2, 1.4.11).

use plotters::style::RGBColor;

/// How a picture looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Theme {
    /// Dark lines on white, for paper.
    #[default]
    Light,
    /// Light lines on the near black of dark pages.
    Dark,
}

/// Which of the themes a picture has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Look {
    /// The theme of the page that an SVG stands in: light or dark by `prefers-color-scheme`. PNG
    /// knows no page and is light.
    #[default]
    Page,
    /// This one anywhere.
    Fixed(Theme),
}

impl Look {
    pub(super) fn colours(self) -> Colours {
        match self {
            Look::Page => Theme::Light.colours(),
            Look::Fixed(theme) => theme.colours(),
        }
    }

    /// What makes an SVG of the light colours a dark one on dark pages: rules of style go before
    /// the attributes of elements (SVG 2, section 6.6), so each light colour leads to its dark one.
    pub(super) fn style(self) -> String {
        if self != Look::Page {
            return String::new();
        }
        let hex = |RGBColor(r, g, b): RGBColor| format!("#{r:02X}{g:02X}{b:02X}");
        let (light, dark) = (Theme::Light.colours().all(), Theme::Dark.colours().all());
        let mut rules = String::new();
        for (light, dark) in light.into_iter().zip(dark) {
            for property in ["fill", "stroke"] {
                let (light, dark) = (hex(light), hex(dark));
                rules += &format!("[{property}=\"{light}\"]{{{property}:{dark}}}");
            }
        }
        format!("@media (prefers-color-scheme:dark){{{rules}}}")
    }
}

/// The colours of a [`Theme`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Colours {
    /// What everything is drawn on.
    pub(super) ground: RGBColor,
    /// Titles.
    pub(super) ink: RGBColor,
    /// Labels of axes, and what is said beside the title.
    pub(super) muted: RGBColor,
    /// Axes.
    pub(super) axis: RGBColor,
    /// Lines to read values by.
    pub(super) grid: RGBColor,
    /// The first line of a picture, and its second and third.
    pub(super) lines: [RGBColor; 3],
    /// A line that stands back behind the others.
    pub(super) faint: RGBColor,
}

const BLUE: RGBColor = RGBColor(0, 114, 178);
const SKY_BLUE: RGBColor = RGBColor(86, 180, 233);
const VERMILION: RGBColor = RGBColor(213, 94, 0);
const ORANGE: RGBColor = RGBColor(230, 159, 0);
const GREEN: RGBColor = RGBColor(0, 158, 115);

impl Colours {
    /// In the order of the members.
    fn all(self) -> [RGBColor; 9] {
        let Colours { ground, ink, muted, axis, grid, lines: [first, second, third], faint } = self;
        [ground, ink, muted, axis, grid, first, second, third, faint]
    }
}

impl Theme {
    pub(super) fn colours(self) -> Colours {
        match self {
            Theme::Light => Colours {
                ground: RGBColor(255, 255, 255),
                ink: RGBColor(20, 20, 20),
                muted: RGBColor(90, 90, 90),
                axis: RGBColor(120, 120, 120),
                grid: RGBColor(228, 228, 228),
                lines: [BLUE, VERMILION, GREEN],
                faint: RGBColor(140, 140, 140),
            },
            Theme::Dark => Colours {
                ground: RGBColor(13, 17, 23),
                ink: RGBColor(236, 239, 244),
                muted: RGBColor(160, 168, 178),
                axis: RGBColor(110, 118, 129),
                grid: RGBColor(38, 44, 54),
                lines: [SKY_BLUE, ORANGE, GREEN],
                faint: RGBColor(128, 136, 147),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG 2, "relative luminance".
    fn luminance(colour: RGBColor) -> f64 {
        let linear = |part: u8| match f64::from(part) / 255.0 {
            part if part <= 0.04045 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * linear(colour.0) + 0.7152 * linear(colour.1) + 0.0722 * linear(colour.2)
    }

    fn contrast(one: RGBColor, other: RGBColor) -> f64 {
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    }

    #[test]
    fn each_light_colour_leads_to_one_dark_one() {
        let mut light = Theme::Light.colours().all().map(|RGBColor(r, g, b)| (r, g, b)).to_vec();
        light.sort_unstable();
        light.dedup();
        assert_eq!(light.len(), 9, "two colours that are one could not be told apart");
        let style = Look::Page.style();
        assert!(style.contains("[fill=\"#FFFFFF\"]{fill:#0D1117}"), "{style}");
        assert_eq!(Look::Fixed(Theme::Dark).style(), "");
    }

    #[test]
    fn texts_and_lines_stand_out_from_their_ground() {
        for theme in [Theme::Light, Theme::Dark] {
            let Colours { ground, ink, muted, lines, faint, .. } = theme.colours();
            assert!(contrast(ink, ground) > 12.0, "{theme:?}");
            assert!(contrast(muted, ground) > 4.5, "{theme:?}");
            for line in lines.into_iter().chain([faint]) {
                assert!(contrast(line, ground) > 3.0, "{theme:?} {line:?}");
            }
        }
    }
}
